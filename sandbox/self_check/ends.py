"""Checks that a job that exceeds a limit ends with that limit as the reason, and that its end is reported correctly."""

from dataclasses import dataclass
from functools import partial

from sandbox.contract import End, Job, Language, Limits, Sandbox
from sandbox.self_check.check import Check, require, run

_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class _Way:
    end: End
    language: Language
    code: str
    limits: Limits


_WAYS = (
    _Way(End.TIMEOUT, Language.PYTHON, "import time; time.sleep(60)", Limits(wall_s=0.5)),
    _Way(End.TIMEOUT, Language.BASH, "trap '' TERM INT; sleep 60; sleep 60", Limits(wall_s=0.5)),
    _Way(End.CPU, Language.PYTHON, "import os; os.fork()\nwhile True: pass", Limits(cpu_s=1, wall_s=20)),
    _Way(
        End.MEMORY,
        Language.PYTHON,
        "x = []\nwhile True: x.append(bytearray(8 << 20))",
        Limits(memory_bytes=128 * _MB),
    ),
    _Way(
        End.MEMORY,  # no single process exceeds the limit, but together they do
        Language.PYTHON,
        "import os, time\nos.fork(); os.fork()\nx = b'x' * (60 << 20)\ntime.sleep(30)",
        Limits(memory_bytes=128 * _MB),
    ),
    _Way(End.OUTPUT, Language.PYTHON, "while True: print('x' * 1000)", Limits(output_bytes=1 * _MB)),
    _Way(End.DISK, Language.PYTHON, "open('f', 'wb').write(bytes(30 << 20))", Limits(disk_bytes=10 * _MB)),
    _Way(
        End.DISK,
        Language.PYTHON,
        "import tempfile\nopen(f'{tempfile.gettempdir()}/f', 'wb').write(bytes(30 << 20))",
        Limits(disk_bytes=10 * _MB),
    ),
    _Way(End.FILE_SIZE, Language.PYTHON, "open('f', 'wb').write(bytes(20 << 20))", Limits(file_size_bytes=1 * _MB)),
    _Way(
        End.PROCESSES,
        Language.PYTHON,
        "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(30)",
        Limits(processes=12),
    ),
    _Way(
        End.PROCESSES,
        Language.PYTHON,
        "import threading\nwhile True: threading.Thread(target=threading.Event().wait, daemon=True).start()",
        Limits(processes=12, threads=12),
    ),
    _Way(End.FILES, Language.PYTHON, "x = []\nwhile True: x.append(open('/dev/null'))", Limits(open_files=48)),
)


async def _ends(way: _Way, sandbox: Sandbox) -> None:
    outcome = await run(sandbox, Job(language=way.language, code=way.code, limits=way.limits))
    require(outcome.end is way.end, f"{outcome.end} instead of {way.end}: {outcome}")
    require(way.end.value in outcome.usage.limits_hit, f"limits_hit is {outcome.usage.limits_hit}")


async def _a_caught_limit_is_reported(sandbox: Sandbox) -> None:
    code = "try: open('f', 'wb').write(bytes(30 << 20))\nexcept OSError: pass\n'went on'"
    outcome = await sandbox.run(Job(code=code, limits=Limits(disk_bytes=10 * _MB)))
    require(outcome.ok and outcome.value == "went on" and "disk" in outcome.usage.limits_hit, outcome)


async def _endless_output_is_truncated(sandbox: Sandbox) -> None:
    limits = Limits(output_bytes=8 * _MB, capture_bytes=10_000)
    outcome = await sandbox.run(Job(code="while True: print('x' * 10_000)", limits=limits))
    require(outcome.end is End.OUTPUT and len(outcome.stdout) <= 10_000 + 100, len(outcome.stdout))
    require(outcome.stdout_dropped > 7 * _MB, outcome.stdout_dropped)


async def _usage_covers_all_processes(sandbox: Sandbox) -> None:
    code = (
        "import os, time\nif os.fork() == 0:\n    x = bytearray(60 << 20)\n    end = time.process_time() + 0.3\n"
        "    while time.process_time() < end: pass\n    os._exit(0)\nos.wait()"
    )
    usage = (await sandbox.run(Job(code=code))).usage
    require(usage.cpu_s > 0.2 and usage.peak_memory_bytes > 50 * _MB and not usage.limits_hit, usage)  # noqa: PLR2004


async def _a_job_that_kills_itself_says_so(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code="import os\nos.kill(os.getpid(), 9)"))
    require(outcome.end is End.KILLED, outcome)


CHECKS = (
    *(
        Check("limits", f"{way.end}: {way.language}, way {number}", partial(_ends, way))
        for number, way in enumerate(_WAYS, 1)
    ),
    Check("limits", "a limit is reported even if the job catches the error", _a_caught_limit_is_reported),
    Check("limits", "endless output is truncated", _endless_output_is_truncated),
    Check("limits", "the reported usage covers all processes of the job", _usage_covers_all_processes),
    Check("ends", "a job that kills itself is reported as killed", _a_job_that_kills_itself_says_so),
)

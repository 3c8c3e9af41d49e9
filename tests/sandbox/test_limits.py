"""Every limit ends the job with its own reason, and is reported even if the code catches the error."""

import pytest

from sandbox.contract import End, Job, Language, Limits
from sandbox.namespace.backend import NamespaceSandbox

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BOX-3")]
PY, NODE, BASH = Language.PYTHON, Language.NODE, Language.BASH
MB = 1 << 20

CASES = [
    (End.TIMEOUT, PY, "while True: pass", Limits(wall_s=0.3)),
    (
        End.TIMEOUT,
        PY,
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)",
        Limits(wall_s=0.3),
    ),
    (End.TIMEOUT, BASH, "trap '' TERM INT; sleep 60", Limits(wall_s=0.3)),
    (End.CPU, PY, "while True: pass", Limits(cpu_s=1)),
    (End.CPU, BASH, "while :; do :; done", Limits(cpu_s=1)),
    (End.CPU, PY, "import os\nos.fork(); os.fork()\nwhile True: pass", Limits(cpu_s=1)),
    (End.MEMORY, PY, "x = []\nwhile True: x.append(bytearray(8 << 20))", Limits(memory_bytes=96 * MB)),
    (End.MEMORY, NODE, "const a = []; while (true) a.push(new Array(1e6).fill(1))", Limits(memory_bytes=96 * MB)),
    (End.MEMORY, NODE, "const a=[]; setInterval(() => a.push(Buffer.alloc(8e6, 1)), 1)", Limits(memory_bytes=128 * MB)),
    (
        End.MEMORY,  # no single process exceeds the limit, but together they do
        PY,
        "import os, time\nos.fork(); os.fork()\nx = b'x' * (60 << 20)\ntime.sleep(20)",
        Limits(memory_bytes=100 * MB),
    ),
    (End.OUTPUT, PY, "while True: print('x' * 1000)", Limits(output_bytes=1 * MB)),
    (End.OUTPUT, BASH, "yes >&2", Limits(output_bytes=1 * MB)),
    (End.DISK, PY, "open('f', 'wb').write(b'x' * (20 << 20))", Limits(disk_bytes=10 * MB)),
    (End.DISK, BASH, "head -c 20M /dev/zero > /tmp/f", Limits(disk_bytes=10 * MB)),
    (End.DISK, NODE, "require('fs').writeFileSync('/dev/shm/f', Buffer.alloc(20e6))", Limits(disk_bytes=10 * MB)),
    (End.FILE_SIZE, PY, "open('f', 'wb').write(b'x' * (20 << 20))", Limits(file_size_bytes=1 * MB)),
    (End.FILE_SIZE, BASH, "head -c 20M /dev/zero > f", Limits(file_size_bytes=1 * MB)),
    (End.PROCESSES, PY, "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(20)", Limits(processes=12)),
    (
        End.PROCESSES,
        PY,
        "import subprocess, time\np = [subprocess.Popen(['sleep', '20']) for _ in range(50)]\ntime.sleep(20)",
        Limits(processes=12),
    ),
    (
        End.PROCESSES,
        PY,
        "import threading\nfor _ in range(50): threading.Thread(target=threading.Event().wait, daemon=True).start()",
        Limits(processes=12, threads=12),
    ),
    (End.PROCESSES, PY, "import os\nwhile True: os.fork()", Limits()),
    (
        End.PROCESSES,
        PY,
        "import threading\nwhile True: threading.Thread(target=threading.Event().wait, daemon=True).start()",
        Limits(wall_s=60),
    ),
    (  # once the threads have used up the memory, any allocation may be the one that fails
        End.PROCESSES,
        PY,
        "import threading\ntry:\n    while True: threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "except (RuntimeError, MemoryError): pass\nraise MemoryError",
        Limits(wall_s=60),
    ),
    (  # the stacks of a few threads do not use up the memory
        End.MEMORY,
        PY,
        "import threading\nfor _ in range(4): threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "x = bytearray(1 << 40)",
        Limits(),
    ),
    (End.FILES, PY, "x = [open('/dev/null') for _ in range(500)]", Limits(open_files=48)),
    (End.FILES, NODE, "for (let i = 0; i < 500; i++) require('fs').openSync('/dev/null')", Limits(open_files=48)),
]


@pytest.mark.parametrize(("end", "language", "code", "limits"), CASES)
async def test_a_limit_ends_the_job_with_its_own_reason(
    box: NamespaceSandbox, end: End, language: Language, code: str, limits: Limits
) -> None:
    outcome = await box.run(Job(language=language, code=code, limits=limits))
    assert outcome.end is end, outcome
    assert end.value in outcome.usage.limits_hit


@pytest.mark.parametrize(
    ("name", "code", "limits"),
    [
        ("disk", "try: open('f', 'wb').write(b'x' * (20 << 20))\nexcept OSError: pass", Limits(disk_bytes=10 * MB)),
        ("processes", "import threading, time\ntry:\n    while True: threading.Thread(target=time.sleep, args=(1,)).start()\n"
         "except RuntimeError: pass", Limits(processes=12, threads=12)),
    ],
)  # fmt: skip
async def test_a_caught_limit_is_reported_even_if_the_job_succeeds(
    box: NamespaceSandbox, name: str, code: str, limits: Limits
) -> None:
    outcome = await box.run(Job(code=code, limits=limits))
    assert outcome.end is End.OK
    assert outcome.usage.limits_hit == (name,)


@pytest.mark.spec("BOX-12")
async def test_endless_output_does_not_fill_the_memory_of_the_engine(box: NamespaceSandbox) -> None:
    limits = Limits(output_bytes=8 * MB, capture_bytes=10_000)
    outcome = await box.run(Job(code="while True: print('x' * 10_000)", limits=limits))
    assert outcome.end is End.OUTPUT
    assert len(outcome.stdout) < 10_100
    assert outcome.stdout_dropped + 10_000 == outcome.usage.output_bytes


async def test_usage_covers_the_whole_process_tree(box: NamespaceSandbox) -> None:
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'x=bytearray(60<<20)\\nfor i in range(3000000): pass'])"
    usage = (await box.run(Job(code=code))).usage
    assert usage.cpu_s > 0.02
    assert usage.peak_memory_bytes > 50 * MB
    assert usage.limits_hit == ()


async def test_libraries_loaded_by_the_template_do_not_count_as_memory_of_the_job(box: NamespaceSandbox) -> None:
    job = Job(code="x = bytearray(40 << 20); len(x)", preload=("pandas",), limits=Limits(memory_bytes=64 * MB))
    assert (await box.run(job)).end is End.OK


@pytest.mark.spec("BOX-3")
async def test_code_that_leaves_no_memory_for_its_report_has_hit_the_memory_limit(box: NamespaceSandbox) -> None:
    tight = Limits(wall_s=20, cpu_s=8, memory_bytes=64 << 20, processes=32, open_files=64)
    job = Job(code="x = []\nwhile True: x.append([len(x)] * 100)", limits=tight)
    for _ in range(10):  # often the process has too little memory left to report the exception
        outcome = await box.run(job)
        assert (outcome.end, outcome.usage.limits_hit) == (End.MEMORY, ("memory",))

"""Every limit ends the job with its own reason, although a job has neither its own disk nor its own process table."""

import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from sandbox.contract import End, Job, Language, Limits
from sandbox.landlock_only.backend import LandlockSandbox
from sandbox.landlock_only.watch import FamilyWatch
from sandbox.linux.watch import Used
from tests.sandbox.test_limits import (  # noqa: F401  (collected here, with this folder's `box`)
    CASES,
    test_endless_output_does_not_fill_the_memory_of_the_engine,
    test_libraries_loaded_by_the_template_do_not_count_as_memory_of_the_job,
    test_usage_covers_the_whole_process_tree,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BOX-3")]
MB = 1 << 20


# The cases of the namespace backend, but with the job's folder in place of /tmp and /dev/shm.
AT_THIS_LEVEL = [
    (end, language, code.replace("/dev/shm/", "").replace("/tmp/", "$TMPDIR/"), limits)
    for end, language, code, limits in CASES
]


@pytest.mark.parametrize(("end", "language", "code", "limits"), AT_THIS_LEVEL)
async def test_a_limit_ends_the_job_with_its_own_reason(
    box: LandlockSandbox, end: End, language: Language, code: str, limits: Limits
) -> None:
    outcome = await box.run(Job(language=language, code=code, limits=limits))
    assert outcome.end is end, outcome
    assert end.value in outcome.usage.limits_hit


FILLING = [
    ("one file", "open('f', 'wb').write(b'x' * (20 << 20))"),
    ("many files", "for i in range(20): open(f'f{i}', 'wb').write(b'x' * (1 << 20))"),
    ("a folder nobody may list", "os.mkdir('d'); [open(f'd/{i}', 'wb').write(b'x' * (1 << 20)) for i in range(20)]; os.chmod('d', 0)"),
    ("a deleted file that is open", "keep = []\nfor i in range(20):\n    keep.append(open('f', 'wb')); keep[-1].write(b'x' * (1 << 20)); keep[-1].flush(); os.unlink('f')\ntime.sleep(60)"),
    ("a file without a name", "f = [os.open('.', os.O_TMPFILE | os.O_RDWR) for _ in range(3)]\n[os.write(each, b'x' * (8 << 20)) for each in f]\ntime.sleep(60)"),
    ("a chain of folders", "for i in range(3000): os.mkdir('d'); os.chdir('d')\ntime.sleep(60)"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "code"), FILLING, ids=[how for how, _ in FILLING])
async def test_every_way_of_filling_the_disk_is_counted(box: LandlockSandbox, how: str, code: str) -> None:
    limits = Limits(disk_bytes=10 * MB, wall_s=60)
    outcome = await box.run(Job(code=f"import os, time\n{code}", limits=limits))
    assert outcome.end is End.DISK, f"{how}: {outcome}"
    assert "disk" in outcome.usage.limits_hit


async def test_a_file_of_exactly_the_limit_is_allowed(box: LandlockSandbox) -> None:
    code = "try: open('f', 'wb').write(b'x' * (20 << 20))\nexcept OSError: pass"
    outcome = await box.run(Job(code=code, limits=Limits(disk_bytes=10 * MB)))
    assert (outcome.end, outcome.usage.limits_hit) == (End.OK, ("disk",))


async def test_a_fork_bomb_ends_with_its_reason_and_leaves_nothing(box: LandlockSandbox) -> None:
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    limits = Limits(processes=40, wall_s=30, cpu_s=3)
    outcome = await box.run(Job(code=code, limits=limits))
    assert outcome.end in (End.PROCESSES, End.TIMEOUT, End.CPU)
    assert "processes" in outcome.usage.limits_hit
    assert (await box.run(Job(code="'after'"))).value == "after"


async def test_cpu_time_of_processes_that_nobody_waits_for_is_counted(box: LandlockSandbox) -> None:
    code = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.2
        while time.process_time() < end: pass
        os._exit(0)
    time.sleep(0.2)
"""
    outcome = await box.run(Job(code=code, limits=Limits(cpu_s=1, wall_s=60)))
    assert outcome.end is End.CPU


async def test_a_limit_found_at_the_end_is_among_the_limits_that_were_hit(tmp_path: Path) -> None:
    """Start too many processes, and answer before the first check."""
    children = [subprocess.Popen(["sleep", "30"]) for _ in range(3)]
    try:
        watch = FamilyWatch(str(tmp_path), None)
        watch.begin(asdict(Limits(processes=2)), children[0].pid)
        watch.used_alone(children[0].pid)
        assert watch.over_at_the_end() == "processes"
        assert watch.hits(Used(0.0, 0)) == ["processes"]
    finally:
        for child in children:
            child.kill()
            child.wait()

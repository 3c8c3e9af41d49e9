"""Nothing is left after a box: not after a timeout, a cancellation, or a sudden end of the engine."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.contract import End, Job, Limits, Mount
from sandbox.namespace.backend import NamespaceSandbox
from tests.eventually import eventually, eventually_sync

pytestmark = pytest.mark.spec("BOX-4")
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "{mark}"])
    os._exit(0)
os.wait()
{then}
"""


def marked(mark: str) -> list[int]:
    """Return the host pids of the processes whose command line contains the mark."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (folder / "cmdline").read_text().split("\0"):
                    found.append(int(folder.name))
    return found


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("then", "end", "wall_s"),
    [("'done'", End.OK, 60), ("while True: pass", End.TIMEOUT, 2), ("os.kill(os.getpid(), 9)", End.KILLED, 60)],
)
async def test_a_daemonised_grandchild_dies_with_its_job(
    box: NamespaceSandbox, then: str, end: End, wall_s: float
) -> None:
    mark = f"{os.getpid()}.{int(time.monotonic() * 1000)}"
    outcome = await box.run(Job(code=DAEMON.format(mark=mark, then=then), limits=Limits(wall_s=wall_s)))
    assert outcome.end is end
    await eventually(lambda: not marked(mark))


@pytest.mark.asyncio(loop_scope="module")
async def test_cancelling_kills_the_tree_before_it_returns(box: NamespaceSandbox, tmp_path: Path) -> None:
    mark = f"{os.getpid()}.77{int(time.monotonic() * 1000)}"
    job = Job(code=DAEMON.format(mark=mark, then="while True: pass"), workspace=Mount(tmp_path))
    task = asyncio.ensure_future(box.run(job))
    await eventually(lambda: bool(marked(mark)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not marked(mark)


@pytest.mark.asyncio(loop_scope="module")
async def test_an_exception_of_the_output_listener_ends_the_job_and_reaches_the_caller(box: NamespaceSandbox) -> None:
    mark = f"{os.getpid()}.66{int(time.monotonic() * 1000)}"

    def listener(_stream: str, _data: bytes) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await box.run(
            Job(code=DAEMON.format(mark=mark, then="print(1, flush=True)\nwhile True: pass")), on_output=listener
        )
    assert not marked(mark)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_killed_template_is_replaced(box: NamespaceSandbox) -> None:
    mark = f"{os.getpid()}.55{int(time.monotonic() * 1000)}"
    task = asyncio.ensure_future(box.run(Job(code=DAEMON.format(mark=mark, then="while True: pass"))))
    await eventually(lambda: bool(marked(mark)))
    for pid in supervisors_of(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    assert (await task).end is End.KILLED
    await eventually(lambda: not marked(mark))
    assert (await box.run(Job(code="'again'"))).value == "again"


def supervisors_of(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                status = (folder / "status").read_text()
                if (
                    re.search(rf"^PPid:\t{parent}$", status, re.MULTILINE)
                    and b"supervisor" in (folder / "cmdline").read_bytes()
                ):
                    found.append(int(folder.name))
    return found


ENGINE = """
import asyncio, sys
from pathlib import Path
from sandbox.contract import Job, Mount
from sandbox.namespace.backend import NamespaceSandbox

async def main():
    async with NamespaceSandbox() as box:
        print("ready", flush=True)
        while True:
            await asyncio.gather(*(box.run(Job(code=sys.argv[1], workspace=Mount(Path(sys.argv[2])))) for _ in range(3)))

asyncio.run(main())
"""


def descendants_marked(mark: str) -> bool:
    return bool(marked(mark))


def mounts(folder: Path) -> list[str]:
    """Return the mounts of this machine that a box could have left. Other mounts may change in the meantime."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(folder) in line or line.split()[4] in ("/box", "/work", "/env/0")]


@pytest.mark.parametrize("run", range(5))
def test_kill_9_of_the_engine_leaves_no_process_and_no_mount(run: int, tmp_path: Path) -> None:
    mark = f"{os.getpid()}.99{run}"
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE, DAEMON.format(mark=mark, then="time.sleep(0.05)"), str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert engine.stdout is not None
    engine.stdout.readline()
    eventually_sync(lambda: bool(marked(mark)))
    children = supervisors_of(engine.pid)
    assert children
    engine.kill()
    engine.communicate()
    eventually_sync(lambda: not marked(mark) and not any(os.path.exists(f"/proc/{pid}/exe") for pid in children))
    assert mounts(tmp_path) == []
    assert list(tmp_path.iterdir()) == []

"""No process is left, even if it has daemonised, and no folder, even if any of the processes is killed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.contract import End, Job, Limits
from sandbox.landlock_only import places
from sandbox.landlock_only.backend import LandlockConfig, LandlockSandbox
from sandbox.landlock_only.watch import descendants
from tests.eventually import eventually, eventually_sync
from tests.sandbox.landlock_only.conftest import PACKAGES
from tests.sandbox.test_cleanup import (
    DAEMON,
    marked,
    test_an_exception_of_the_output_listener_ends_the_job_and_reaches_the_caller,  # noqa: F401
)

pytestmark = pytest.mark.spec("BOX-4")


@pytest.fixture
def base() -> Iterator[Path]:
    """Yield a temporary folder that contains only the private folders of these jobs."""
    with tempfile.TemporaryDirectory(prefix="knackbox-test-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def mark() -> str:
    return f"{os.getpid()}.{time.monotonic_ns()}"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("then", "end", "wall_s"),
    [("'done'", End.OK, 60), ("while True: pass", End.TIMEOUT, 2), ("os.kill(os.getpid(), 9)", End.KILLED, 60)],
)
async def test_a_daemonised_grandchild_dies_with_its_job(
    box: LandlockSandbox, then: str, end: End, wall_s: float
) -> None:
    name = mark()
    outcome = await box.run(Job(code=DAEMON.format(mark=name, then=then), limits=Limits(wall_s=wall_s)))
    assert outcome.end is end
    assert not marked(name)


@pytest.mark.asyncio(loop_scope="module")
async def test_cancelling_kills_the_tree_and_removes_its_folder_before_it_returns(base: Path) -> None:
    async with LandlockSandbox(LandlockConfig(folder=str(base), warm=0)) as own:
        name = mark()
        task = asyncio.ensure_future(own.run(Job(code=DAEMON.format(mark=name, then="while True: pass"))))
        await eventually(lambda: bool(marked(name)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not marked(name)
        (only,) = base.iterdir()
        assert [path.name for path in only.iterdir()] == [".lock"]
    assert list(base.iterdir()) == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("victim", ["supervisor", "template", "box", "worker"])
async def test_a_killed_process_is_replaced_and_leaves_nothing(base: Path, victim: str) -> None:
    async with LandlockSandbox(LandlockConfig(folder=str(base), warm=0)) as own:
        await own.warm_up()
        name = mark()
        task = asyncio.ensure_future(own.run(Job(code=DAEMON.format(mark=name, then="while True: pass"))))
        await eventually(lambda: bool(marked(name)))
        os.kill(chain_above(marked(name)[0])[victim], signal.SIGKILL)
        assert (await task).end is End.KILLED
        await eventually(lambda: not marked(name))
        assert (await own.run(Job(code="'again'"))).value == "again"
    await eventually(lambda: list(base.iterdir()) == [])


def chain_above(daemon: int) -> dict[str, int]:
    """Return the ancestors of a daemonised process by name, from the supervisor down to the box."""
    eventually_sync(lambda: len(children_of(parent_of(daemon))) > 1)  # until it is a child of the box, like the worker
    box = parent_of(daemon)
    template = parent_of(box)
    worker = min(children_of(box))
    return {"supervisor": parent_of(template), "template": template, "box": box, "worker": worker}


def children_of(pid: int) -> list[int]:
    found = []
    for each in map(int, descendants(pid)):
        with contextlib.suppress(OSError):  # it has just ended
            found += [each] if parent_of(each) == pid else []
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


ENGINE = """
import asyncio, sys
from sandbox.contract import Job
from sandbox.landlock_only.backend import LandlockConfig, LandlockSandbox

async def main():
    config = LandlockConfig(folder=sys.argv[2], packages=(sys.argv[3],), warm=0, max_boxes=1)
    async with LandlockSandbox(config) as box:
        while True:
            await box.run(Job(code=sys.argv[1]))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "victims",
    [
        ("engine",),
        ("engine", "supervisor"),
        ("supervisor", "engine"),
        ("template", "engine"),
        ("engine", "supervisor", "template"),
        ("engine", "box", "supervisor"),
    ],
    ids="+".join,
)
def test_kill_9_of_the_engine_and_others_leaves_no_process(base: Path, victims: tuple[str, ...]) -> None:
    name = mark()
    command = [sys.executable, "-c", ENGINE, DAEMON.format(mark=name, then="time.sleep(20)"), str(base), PACKAGES]
    engine = subprocess.Popen(command, cwd=Path(__file__).parents[3])
    eventually_sync(lambda: bool(marked(name)))
    chain = {"engine": engine.pid, **chain_above(marked(name)[0])}
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):  # it has ended because of the previous kill
            os.kill(chain[victim], signal.SIGKILL)
    engine.wait()
    eventually_sync(lambda: not marked(name) and not any(alive(pid) for pid in chain.values()))
    nobody_is_left = {"supervisor", "template"} <= set(victims)

    def empty() -> bool:
        if nobody_is_left:
            places.sweep(str(base))  # as the next engine does; a dying process may still hold the lock for a moment
        return list(base.iterdir()) == []

    eventually_sync(empty)


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/exe").is_symlink() and os.path.exists(f"/proc/{pid}/exe")


def test_a_locked_folder_is_not_removed(base: Path) -> None:
    mine, lock = places.make_base(str(base), for_others=False)
    other, other_lock = places.make_base(str(base), for_others=False)
    assert {path.name for path in base.iterdir()} == {Path(mine).name, Path(other).name}
    os.close(lock)
    places.sweep(str(base))
    assert [str(path) for path in base.iterdir()] == [other]
    os.close(other_lock)


@pytest.mark.parametrize("call", ["unlink", "rmdir"])
def test_the_next_sweep_completes_a_removal_that_was_interrupted(
    base: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    mine, lock = places.make_base(str(base), for_others=False)
    for box in ("1", "2"):
        (Path(mine) / box).mkdir()
        (Path(mine) / box / "file").touch()
    os.close(lock)
    original, left = getattr(os, call), [2]

    def interrupted(*args: object, **kwargs: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        original(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, interrupted)
        with pytest.raises(KeyboardInterrupt):
            places.remove_base(mine)
    assert list(base.iterdir())
    places.sweep(str(base))
    assert not list(base.iterdir())


def test_any_tree_is_removed_and_no_link_is_followed(base: Path) -> None:
    victim, top = base / "victim", base / "top"
    victim.mkdir()
    (victim / "keep").touch()
    top.mkdir()
    (top / "link").symlink_to(victim)
    here = os.open(top, os.O_DIRECTORY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("deep", os.O_CREAT, dir_fd=here))
    os.close(here)
    shut = top / "shut"
    (shut / "inner").mkdir(parents=True)
    (shut / "inner").chmod(0)
    shut.chmod(0)
    assert places.measure(str(top))[1] > places.MAX_ENTRIES
    places.remove(str(top))
    assert [path.name for path in base.iterdir()] == ["victim"]
    assert (victim / "keep").exists()


@pytest.mark.spec("BOX-4", "BOX-12")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_job_that_is_cancelled_at_once_does_not_end_its_template(box: LandlockSandbox) -> None:
    """Cancel jobs while their boxes change the user: such a box cannot kill a worker that is still root."""
    await box.run(Job(code="1"))
    (before,) = [entry.server for key, entry in box._templates._entries.items() if not key.preload]
    for _ in range(60):
        await box.run(Job(code="1"))
        running = asyncio.ensure_future(box.run(Job(code="while True: pass")))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    (after,) = [entry.server for key, entry in box._templates._entries.items() if not key.preload]
    assert after is before
    assert before.dead == ""


SIGTERM_AT_ONCE = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from sandbox.landlock_only.family import end_on_sigterm, fork_that_ends_on_sigterm
end_on_sigterm()
for _ in range(300):
    pid = fork_that_ends_on_sigterm()
    if pid == 0:
        try:
            end_on_sigterm()
            while True: pass  # not a system call, because a signal just before one is handled only after it
        except EOFError:
            os._exit(7)
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
"""


@pytest.mark.spec("BOX-12")
def test_a_box_that_gets_sigterm_before_it_has_a_handler_ends() -> None:
    """Send SIGTERM right after the fork: Python's own fork loses it about every second time."""
    subprocess.run([sys.executable, "-c", SIGTERM_AT_ONCE, str(Path(__file__).parents[3])], check=True, timeout=60)

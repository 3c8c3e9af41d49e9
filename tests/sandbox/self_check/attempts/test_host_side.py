"""Attempts that need the host to do something while the job runs."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.contract import End, Job, Limits, Mount, Stream
from sandbox.namespace.backend import NamespaceSandbox
from sandbox.self_check.attempts.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BOX-6")]


async def run_and(box: NamespaceSandbox, job: Job, when_ready: "asyncio.Future[None]") -> tuple[End, bytes]:
    def listen(_stream: Stream, data: bytes) -> None:
        if b"ready" in data and not when_ready.done():
            when_ready.set_result(None)

    outcome = await box.run(job, on_output=listen)
    return outcome.end, outcome.stdout + repr(outcome.value).encode() + repr(outcome.error).encode()


async def test_a_folder_that_is_moved_out_of_the_workspace_gives_no_access_to_the_host(
    box: NamespaceSandbox, stage: Stage
) -> None:
    """Move the box's working directory beside the canary on the host: from there, .. must not lead to the canary."""
    inside, outside = stage.workspace / "sub", stage.root / "moved"
    inside.mkdir()
    code = """
import os, time
os.chdir('sub'); print('ready', flush=True)
deadline = time.monotonic() + 30
while time.monotonic() < deadline and os.path.exists('/work/sub'): time.sleep(0.005)
found = []
for path in ('../canary', '../../canary', '../workspace/file'):
    try: found.append(open(path).read())
    except OSError as problem: found.append(problem.strerror)
found
"""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    job = Job(code=code, workspace=Mount(stage.workspace), limits=Limits(wall_s=60))
    running = asyncio.ensure_future(run_and(box, job, ready))
    await asyncio.wait_for(ready, 60)
    inside.rename(outside)
    end, told = await running
    outside.rmdir()
    assert end is End.OK
    assert stage.secret.encode() not in told


async def test_a_link_that_replaces_the_workspace_during_the_job_is_not_followed(
    box: NamespaceSandbox, tmp_path: Path, stage: Stage
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    code = "import os, time\nprint('ready', flush=True)\ntime.sleep(0.2)\nopen('mine', 'w').close()\nos.listdir('.')"
    running = asyncio.ensure_future(run_and(box, Job(code=code, workspace=Mount(folder)), ready))
    await asyncio.wait_for(ready, 60)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(stage.root)
    end, _ = await running
    assert end is End.OK
    assert (tmp_path / "moved" / "mine").exists()
    assert not (stage.root / "mine").exists()


@contextmanager
def swapping(folder: Path, real: Path, target: Path) -> Iterator[None]:
    """Keep exchanging `folder` between a folder and a link."""
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            folder.rename(real)
            folder.symlink_to(target)
            folder.unlink()
            real.rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


async def test_a_folder_that_is_swapped_with_a_link_never_shows_files_outside(
    box: NamespaceSandbox, stage: Stage, tmp_path: Path
) -> None:
    work = tmp_path / "w"
    (work / "d").mkdir(parents=True)
    code = f"""
found = set()
for _ in range(20000):
    for path in ('d/canary', 'd/../canary', 'd{stage.root}/canary'):
        try: found.add(open(path).read())
        except OSError: pass
sorted(found)
"""
    with swapping(work / "d", work / "real", stage.root):
        outcome = await box.run(Job(code=code, workspace=Mount(work)))
    assert outcome.value == []


async def test_collected_files_are_not_read_through_links(box: NamespaceSandbox, stage: Stage) -> None:
    code = "import os\nos.symlink('/proc/1', 'p'); os.symlink('/etc', 'e'); os.symlink('/', 'r')"
    collect = ("p/environ", "p/maps", "e/passwd", "r/etc/passwd", "link", "up/etc/passwd", "../../etc/passwd")
    outcome = await box.run(Job(code=code, workspace=Mount(stage.workspace), collect=collect))
    stage.restore()
    assert outcome.end is End.OK
    assert outcome.files == {}

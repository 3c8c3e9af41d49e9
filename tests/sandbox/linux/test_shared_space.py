"""On a shared file system, a job is charged only for what it writes itself."""

import asyncio
import os
import stat
import tempfile
from pathlib import Path

import pytest

from sandbox.contract import End, Job, Limits, Mount, Outcome, Stream
from sandbox.landlock_only.backend import LandlockSandbox
from sandbox.linux import readings, shared_space
from sandbox.linux.shared_space import SharedSpace
from sandbox.namespace.backend import NamespaceSandbox

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BOX-3")]
MB = 1 << 20
WAITS = """
import os, time
print('ready', flush=True)
deadline = time.monotonic() + 50
while not os.path.exists('go') and time.monotonic() < deadline: time.sleep(0.01)
os.path.exists('go')
"""


async def beside_a_writer(box: NamespaceSandbox, work: Path, elsewhere: Path) -> Outcome:
    """Run an idle job while another process writes ten times the job's disk limit to the same file system."""
    ready = asyncio.Event()

    def hear(_stream: Stream, _data: bytes) -> None:
        ready.set()

    job = Job(code=WAITS, workspace=Mount(work), limits=Limits(disk_bytes=8 * MB, wall_s=60))
    running = asyncio.ensure_future(box.run(job, on_output=hear))
    await asyncio.wait({running, asyncio.ensure_future(ready.wait())}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        return running.result()
    assert ready.is_set(), "the job said nothing"
    with elsewhere.open("wb") as file:
        for _ in range(40):
            file.write(bytes(2 * MB))
            file.flush()
            await asyncio.sleep(0.01)  # long enough for a check in between
    (work / "go").touch()
    outcome = await running
    elsewhere.unlink()
    return outcome


async def test_what_another_process_writes_is_not_charged_to_the_job(box: NamespaceSandbox, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    outcome = await beside_a_writer(box, tmp_path / "work", tmp_path / "another")
    assert (outcome.end, outcome.value, outcome.usage.limits_hit) == (End.OK, True, ())


async def test_the_landlock_backend_does_not_charge_what_another_process_writes(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    base = Path(tempfile.gettempdir())
    for folder in (work, *work.parents):  # the job's user must be able to enter all parent folders
        if folder != base and folder.is_relative_to(base):
            folder.chmod(0o755)
    if work.stat().st_uid == 0:
        os.chown(work, 1000, 1000)
    async with LandlockSandbox() as sandbox:
        outcome = await beside_a_writer(sandbox, work, tmp_path / "another")
    assert (outcome.end, outcome.value, outcome.usage.limits_hit) == (End.OK, True, ())


# Far more than the limit, because space that other tests free at the same time hides some of it.
HOW = {
    "by writing": "for n in range(200): open(f'f{n}', 'wb').write(bytes(2 << 20)); time.sleep(0.01)",
    "by a mapping": """
import mmap
for n in range(200):
    file = open(f'm{n}', 'wb+'); file.truncate(2 << 20)
    with mmap.mmap(file.fileno(), 2 << 20) as m: m[:] = b'x' * (2 << 20)
    time.sleep(0.01)
""",
    "by reserving": """
for n in range(200): os.posix_fallocate(os.open(f'r{n}', os.O_CREAT | os.O_RDWR), 0, 2 << 20); time.sleep(0.01)
""",
    "by files that are deleted and held": """
held = []
for n in range(200):
    held.append(open('f', 'wb')); held[-1].write(bytes(2 << 20)); held[-1].flush(); os.unlink('f'); time.sleep(0.01)
""",
    "by processes that nobody waits for": """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for n in range(200):
    if os.fork() == 0:
        open(f'c{n}', 'wb').write(bytes(2 << 20)); os._exit(0)
    time.sleep(0.01)
""",
}


@pytest.mark.parametrize("how", HOW)
async def test_what_the_job_writes_is_charged_to_it(box: NamespaceSandbox, tmp_path: Path, how: str) -> None:
    code = f"import os, time\n{HOW[how]}\ntime.sleep(60)"
    outcome = await box.run(Job(code=code, workspace=Mount(tmp_path), limits=Limits(disk_bytes=8 * MB, wall_s=60)))
    assert outcome.end is End.DISK, outcome


class Scripted:
    """Sets the free space and the bytes written by the job, as seen by the code under test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free, self.written = 1000 * MB, 0
        monkeypatch.setattr(readings, "free_bytes", lambda _: self.free)
        monkeypatch.setattr(readings, "written_bytes", lambda *_: self.written)


async def test_a_job_that_rewrites_one_file_is_not_charged_for_other_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = Scripted(monkeypatch)
    space = SharedSpace(str(tmp_path), 10 * MB)
    for _ in range(50):  # the same five megabytes
        now.written += 5 * MB
        assert not space.used_up(["7"])
    assert not space.used_up(["7"])
    for _ in range(50):
        now.free -= 5 * MB
        assert not space.used_up(["7"])


async def test_freed_space_is_not_charged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = Scripted(monkeypatch)
    space = SharedSpace(str(tmp_path), 10 * MB)
    for _ in range(20):
        now.free, now.written = now.free - 8 * MB, now.written + 8 * MB
        assert not space.used_up(["7"])
        now.free += 8 * MB
        assert not space.used_up(["7"])
    now.free, now.written = now.free - 12 * MB, now.written + 12 * MB
    assert space.used_up(["7"])


async def test_a_process_that_hides_its_counters_is_charged_for_all_lost_space(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = Scripted(monkeypatch)
    space = SharedSpace(str(tmp_path), 10 * MB)
    monkeypatch.setattr(readings, "written_bytes", lambda *_: None)
    now.free -= 11 * MB
    assert space.used_up(["7"])


@pytest.mark.spec("BOX-3")
async def test_a_walk_follows_no_links_opens_nothing_that_blocks_and_ends_in_deep_folders(tmp_path: Path) -> None:
    """The attempt: a workspace with a link to its own parent, a pipe, and more levels of folders than a walk goes down."""
    (tmp_path / "link").symlink_to(tmp_path.parent)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(bytes(10_000))
    deep = tmp_path
    for _ in range(300):
        deep = deep / "d"
        deep.mkdir()
    (deep / "below").write_bytes(bytes(10_000))
    sizes = [found.st_size for found in shared_space._SpaceWalk().files(str(tmp_path)) if stat.S_ISREG(found.st_mode)]
    assert sizes == [10_000]
    assert list(shared_space._SpaceWalk().files(str(tmp_path / "missing"))) == []

"""Jobs that are not what they should be, by malice or mistake. Attempts to break out: `tests/sandbox/escapes`."""

import asyncio
import contextlib
import os
import socket
from pathlib import Path

import pytest

from sandbox.contract import Call, End, Job, Language, Limits, Mount, Outcome, SandboxError, Writes
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")
MB = 1 << 20


@pytest.mark.spec("BOX-6")
async def test_files_to_bring_back_that_are_no_plain_files_are_left(box: NamespaceSandbox) -> None:
    code = "import os\nos.mkfifo('pipe'); os.mkdir('folder'); os.symlink('/etc/passwd', 'link')\nopen('shut', 'w'); os.chmod('shut', 0)\nopen('good', 'w').write('g')"
    job = Job(code=code, collect=("pipe", "folder", "link", "shut", "good", "absent"))
    outcome = await box.run(job)
    assert outcome.end is End.OK
    assert set(outcome.files) <= {"good", "shut"}
    assert outcome.files["good"] == b"g"


@pytest.mark.spec("BOX-3")
async def test_sleeping_forks_of_a_large_template_are_not_taken_for_memory(box: NamespaceSandbox) -> None:
    code = "import os, time\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(20)\ntime.sleep(0.3)"
    job = Job(code=code, preload=("pandas",), limits=Limits(memory_bytes=96 * MB))
    assert (await box.run(job)).end is End.OK


@pytest.mark.spec("BOX-6")
class TestWorkspace:
    async def test_a_servers_socket_in_it_cannot_be_reached(self, box: NamespaceSandbox, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(tmp_path / "server"))
            server.listen()
            server.setblocking(False)
            code = "import socket\nsocket.socket(socket.AF_UNIX).connect('/work/server')"
            outcome = await box.run(Job(code=code, workspace=Mount(tmp_path, Writes.NO)))
            assert outcome.end is End.ERROR
            with pytest.raises(BlockingIOError):
                server.accept()

    async def test_a_servers_datagram_socket_in_it_cannot_be_reached_through_a_pair(
        self, box: NamespaceSandbox, tmp_path: Path
    ) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(str(tmp_path / "server"))
            server.setblocking(False)
            code = "import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', '/work/server')"
            assert (await box.run(Job(code=code, workspace=Mount(tmp_path)))).end is End.ERROR
            with pytest.raises(BlockingIOError):
                server.recv(10)
        pair = "import socket\na, b = socket.socketpair()\na.send(b'x')\nb.recv(1).decode()"
        assert (await box.run(Job(code=pair, workspace=Mount(tmp_path)))).value == "x"

    async def test_a_relative_path_is_taken_from_where_the_caller_is(
        self, box: NamespaceSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "mine.txt").touch()
        monkeypatch.chdir(tmp_path)
        outcome = await box.run(Job(code="import os\nos.listdir('.')", workspace=Mount(Path())))
        assert outcome.value == ["mine.txt"]

    async def test_the_root_of_the_host_is_no_workspace(self, box: NamespaceSandbox) -> None:
        with pytest.raises(SandboxError, match="not a workspace"):
            await box.run(Job(code="1", workspace=Mount(Path("/"), Writes.NO)))


@pytest.mark.parametrize(
    "job",
    [
        Job(code="1", limits=Limits(disk_bytes=0)),
        Job(code="1", env={"A": "x\0y"}),
        Job(code="1", files={"a": b"", "a/b": b""}),
        Job(code="'\ud800'"),
        Job(call=Call("absent.py", "f")),
        Job(files={"f.py": b""}, call=Call("f.py", "f", {"x": {1}})),
        Job(language=Language.BASH, code="\ud800"),
    ],
)
async def test_a_job_that_makes_no_sense_is_refused_before_anything_runs(box: NamespaceSandbox, job: Job) -> None:
    with pytest.raises(SandboxError) as refusal:
        await box.run(job)
    assert not refusal.value.may_have_started


async def test_more_kinds_of_boxes_than_templates_may_be_open_at_once() -> None:
    preloads = [(), ("json",), ("csv",), ("decimal",)]
    async with NamespaceSandbox(NamespaceConfig(max_templates=1)) as small:
        outcomes = await asyncio.gather(*(small.run(Job(code="7", preload=preload)) for preload in preloads))
    assert [outcome.value for outcome in outcomes] == [7, 7, 7, 7]


async def test_a_crowd_of_jobs_is_served_and_no_descriptor_stays_open() -> None:
    async with NamespaceSandbox(NamespaceConfig(max_boxes=40)) as many:
        await many.run(Job(code="1"))
        before = len(os.listdir("/proc/self/fd"))
        outcomes = await asyncio.gather(*(many.run(Job(code="1")) for _ in range(200)))
        assert all(outcome.end is End.OK for outcome in outcomes)

        async def cancelled(after: int) -> Outcome | None:
            task = asyncio.ensure_future(many.run(Job(code="while True: pass")))
            for _ in range(after):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                return await task
            return None

        await asyncio.gather(*(cancelled(after) for after in range(30)))
        await many.run(Job(code="1"))
        idle = 3 * 2 * 2  # descriptors of the boxes that wait, with as many again just being made
        assert len(os.listdir("/proc/self/fd")) <= before + idle

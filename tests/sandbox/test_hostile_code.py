"""Code that forges its answer, hides the resources that it uses, or tries to leave something behind."""

import asyncio
import contextlib
import os
import socket
import stat
from pathlib import Path

import pytest

from sandbox.contract import Call, End, Job, Language, Limits, Mount, Outcome, SandboxError, Writes
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from tests.descriptors import open_descriptors
from tests.eventually import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
MB = 1 << 20
FORGE = """
import json, os, struct
def forge(text):
    data = text.encode() if isinstance(text, str) else json.dumps(text).encode()
    view = memoryview(struct.pack("!IQ", len(data), 0) + data)
    while view:
        view = view[os.write(3, view):]
    os._exit(0)
"""
FORGERIES = [
    "{'end': 'ok', 'kind': 'failed', 'started': False, 'why': 'x'}",
    "{'end': 'ok', 'failed': 'x'}",
    "{'end': 'bogus'}",
    "['ok']",
    "{'end': 'error', 'error': 'text'}",
    "{'end': 'error', 'error': {'type': 1, 'message': None, 'traceback': []}}",
    "{'end': 'ok', 'exit_code': 10**30, 'signal': {}, 'usage': 'none', 'files': 7}",
    "{'end': 'ok', 'exit_code': 'x', 'value': 'kept'}",
    "{'end': 'timeout'}",
    "'{\"end\": \"ok\", \"value\": ' + '[' * 100_000 + ']' * 100_000 + '}'",
    "'{\"end\": \"ok\", \"value\": ' + '[' * 900 + ']' * 900 + '}'",
    "'not json'",
    '\'{"end": "error", "error": {"message": "\\\\ud800"}}\'',
]


@pytest.mark.spec("BOX-13")
@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_forged_answer_is_an_outcome_of_the_code_and_never_a_failure_of_the_box(
    box: NamespaceSandbox, forgery: str
) -> None:
    outcome = await box.run(Job(code=f"{FORGE}\nforge({forgery})"))
    assert outcome.end in (End.OK, End.ERROR)
    assert outcome.exit_code is None or 0 <= outcome.exit_code <= 255
    assert outcome.signal is None
    assert outcome.files == {}
    if outcome.error is not None:
        for text in (outcome.error.type, outcome.error.message, outcome.error.traceback):
            assert isinstance(text, str)
            text.encode()


@pytest.mark.spec("BOX-6")
async def test_only_plain_files_are_collected(box: NamespaceSandbox) -> None:
    code = "import os\nos.mkfifo('pipe'); os.mkdir('folder'); os.symlink('/etc/passwd', 'link')\nopen('shut', 'w'); os.chmod('shut', 0)\nopen('good', 'w').write('g')"
    job = Job(code=code, collect=("pipe", "folder", "link", "shut", "good", "absent"))
    outcome = await box.run(job)
    assert outcome.end is End.OK
    assert set(outcome.files) <= {"good", "shut"}
    assert outcome.files["good"] == b"g"


HIDING = [
    ("processes that say they may not be looked at", "import ctypes\nctypes.CDLL(None).prctl(4, 0)\n", ""),
    ("pages shared with sleeping children", "", "    if os.fork() == 0: time.sleep(20)\n"),
]


@pytest.mark.spec("BOX-3")
@pytest.mark.parametrize(("how", "before", "inside"), HIDING, ids=[how for how, _, _ in HIDING])
async def test_hidden_memory_of_a_process_tree_is_counted(
    box: NamespaceSandbox, how: str, before: str, inside: str
) -> None:
    code = f"import os, time\n{before}for _ in range(8):\n  if os.fork() == 0:\n    x = b'x' * (40 << 20)\n{inside}    time.sleep(20)\ntime.sleep(20)"
    outcome = await box.run(Job(code=code, limits=Limits(memory_bytes=96 * MB, wall_s=60)))
    assert outcome.end is End.MEMORY, f"{how}: {outcome}"


@pytest.mark.spec("BOX-3")
async def test_the_cpu_time_of_many_short_processes_is_counted(box: NamespaceSandbox) -> None:
    code = """
import os, time
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.1
        while time.process_time() < end: pass
        os._exit(0)
    os.wait()
"""
    outcome = await box.run(Job(code=code, limits=Limits(cpu_s=1, wall_s=60)))
    assert outcome.end is End.CPU


@pytest.mark.spec("BOX-3")
async def test_sleeping_forks_of_a_large_template_do_not_count_as_memory(box: NamespaceSandbox) -> None:
    code = "import os, time\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(20)\ntime.sleep(0.3)"
    job = Job(code=code, preload=("pandas",), limits=Limits(memory_bytes=96 * MB))
    assert (await box.run(job)).end is End.OK


@pytest.mark.spec("BOX-6")
class TestWorkspace:
    @pytest.mark.parametrize(
        "attempt",
        [
            "open('s', 'w').close(); os.chmod('s', 0o6755)",
            "os.close(os.open('s', os.O_CREAT | os.O_WRONLY, 0o4777))",
            "os.mkdir('s', 0o2777); os.chmod('s', 0o2777)",
            "os.mknod('s', 0o4755 | 0o100000)",
            "os.mknod('s', 0o20666)",
        ],
    )
    async def test_no_file_left_in_a_workspace_gives_others_its_owners_rights(
        self, box: NamespaceSandbox, tmp_path: Path, attempt: str
    ) -> None:
        os.chmod(tmp_path, 0o755)
        outcome = await box.run(Job(code=f"import os\n{attempt}", workspace=Mount(tmp_path)))
        assert outcome.end is End.ERROR
        for path in tmp_path.iterdir():
            assert not path.stat().st_mode & 0o6000
            assert not stat.S_ISCHR(path.stat().st_mode)

    async def test_a_servers_socket_in_a_workspace_cannot_be_reached(
        self, box: NamespaceSandbox, tmp_path: Path
    ) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(tmp_path / "server"))
            server.listen()
            server.setblocking(False)
            code = "import socket\nsocket.socket(socket.AF_UNIX).connect('/work/server')"
            outcome = await box.run(Job(code=code, workspace=Mount(tmp_path, Writes.NO)))
            assert outcome.end is End.ERROR
            with pytest.raises(BlockingIOError):
                server.accept()

    async def test_a_servers_datagram_socket_in_a_workspace_cannot_be_reached_through_a_pair(
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

    async def test_a_relative_path_is_relative_to_the_callers_folder(
        self, box: NamespaceSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "mine.txt").touch()
        monkeypatch.chdir(tmp_path)
        outcome = await box.run(Job(code="import os\nos.listdir('.')", workspace=Mount(Path())))
        assert outcome.value == ["mine.txt"]

    async def test_the_root_of_the_host_cannot_be_a_workspace(self, box: NamespaceSandbox) -> None:
        with pytest.raises(SandboxError, match="not a workspace"):
            await box.run(Job(code="1", workspace=Mount(Path("/"), Writes.NO)))


@pytest.mark.spec("BOX-5")
@pytest.mark.parametrize(
    "attempt",
    [
        "resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))",
        "os.setpriority(os.PRIO_PROCESS, 1, 19)",
        "os.sched_setaffinity(1, [0])",
        "os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
        "os.kill(1, 9) or os.kill(1, 19) or open('/proc/1/comm').read() and 1 / 0",
    ],
)
async def test_process_1_cannot_be_hindered(box: NamespaceSandbox, attempt: str) -> None:
    outcome = await box.run(Job(code=f"import os, resource\n{attempt}", limits=Limits(wall_s=5)))
    assert outcome.end is End.ERROR


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
async def test_an_invalid_job_is_refused_before_anything_runs(box: NamespaceSandbox, job: Job) -> None:
    with pytest.raises(SandboxError) as refusal:
        await box.run(job)
    assert not refusal.value.may_have_started


async def test_more_kinds_of_boxes_than_templates_may_be_open_at_once() -> None:
    preloads = [(), ("json",), ("csv",), ("decimal",)]
    async with NamespaceSandbox(NamespaceConfig(max_templates=1)) as small:
        outcomes = await asyncio.gather(*(small.run(Job(code="7", preload=preload)) for preload in preloads))
    assert [outcome.value for outcome in outcomes] == [7, 7, 7, 7]


async def test_many_concurrent_jobs_are_served_and_no_descriptor_stays_open() -> None:
    async with NamespaceSandbox(NamespaceConfig(max_boxes=40, most_warm=1)) as many:
        await many.run(Job(code="1"))
        before = len(open_descriptors())
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
        idle = 3 * 2 * 2  # descriptors of the waiting boxes, and of as many boxes that are being created
        await eventually(lambda: len(open_descriptors()) <= before + idle)

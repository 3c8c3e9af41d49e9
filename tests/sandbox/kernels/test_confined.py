"""A cell has no more of the host than a job has: the suite of escapes is made from inside kernels, too."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
import zmq.asyncio

from sandbox.contract import End, Job, Language, Mount, OnOutput, Outcome, Protections
from sandbox.escapes.attempt import HOLDING, Attempt, Family
from sandbox.escapes.stage import Stage
from sandbox.escapes.suite import attempts_on
from sandbox.escapes.trial import put
from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.spec import Cell, CellLimits, KernelSpec
from sandbox.kernels.talk import Talk
from sandbox.namespace.backend import NamespaceSandbox
from tests.sandbox.kernels.conftest import Start

pytestmark = pytest.mark.asyncio(loop_scope="module")

# An idle kernel has eight threads already, and needs sockets of its own.
_ROOM = {"processes": 48, "open_files": 128}
_LEAST_MEMORY = 128 << 20  # the stacks of those threads alone are 64 MiB of address space, which the rlimit counts
# A kernel makes sockets and event descriptors itself (see below for whose they are), and its stdout is no file.
_OF_JOBS_ALONE = (Family.DESCRIPTORS, "print what looks like an answer")


class CellsAsJobs:
    """A sandbox whose jobs are each the first cell of a fresh kernel."""

    name = "namespace"

    def __init__(self, box: NamespaceSandbox, context: "zmq.asyncio.Context") -> None:
        self._box = box
        self._context = context

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        given = job.limits
        spec = KernelSpec(
            workspace=job.workspace,
            memory_bytes=given.memory_bytes,
            cpu_s=given.cpu_s,
            disk_bytes=given.disk_bytes,
            **_ROOM,
        )
        kernel = await BoxedKernel.start(self._box, spec)
        try:
            talk = await Talk.with_ready(kernel, self._context)
            try:
                limits = CellLimits(job.limits.wall_s, grace_s=1.0, output_bytes=job.limits.output_bytes)
                return told(await talk.run(job.code, limits))
            finally:
                talk.close()
        finally:
            kernel.forget()
            await kernel.kill()

    async def report(self) -> Protections:
        return await self._box.report()

    async def aclose(self) -> None:
        return


def told(cell: Cell) -> Outcome:
    results = [str(output.data) for output in cell.outputs if output.data]
    streams = {n: "".join(o.text for o in cell.outputs if o.name == n) for n in ("stdout", "stderr")}
    return Outcome(
        end=cell.end,
        stdout=streams["stdout"].encode(),
        stderr=streams["stderr"].encode(),
        value=" ".join(results),
        error=cell.error,
    )


def fits(attempt: Attempt) -> bool:
    """Whether a first cell can make it as a job would, and end as its row says."""
    alone = attempt.language is Language.PYTHON and not attempt.beside and not attempt.then
    alone = alone and attempt.limits.memory_bytes >= _LEAST_MEMORY
    alone = alone and attempt.family not in _OF_JOBS_ALONE and attempt.attempt not in _OF_JOBS_ALONE
    return alone and HOLDING not in attempt.code and "hold(" not in attempt.code and End.OK in attempt.ends


@pytest.fixture(scope="module")
def stage() -> object:
    with Stage() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cells(stage: Stage) -> AsyncIterator[CellsAsJobs]:
    context = zmq.asyncio.Context()
    async with NamespaceSandbox() as box:
        yield CellsAsJobs(box, context)
    context.destroy(linger=0)


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.spec("KERN-1", "BOX-5"), pytest.mark.escapes])
        for each in attempts_on("namespace")
        if fits(each)
    ],
)
async def test_the_attempt_fails_from_a_cell(cells: CellsAsJobs, stage: Stage, attempt: Attempt) -> None:
    trial = await put(cells, attempt, stage)
    assert trial.held, f"{attempt.name}: {'; '.join(trial.wrong)}\n(should fail because {attempt.why})"


@pytest.mark.spec("KERN-1")
async def test_a_kernel_has_no_network_and_sees_no_device_of_the_host(start: Start) -> None:
    _, talk = await start()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            "import socket\n"
            "def reach(host, port):\n"
            "    try: socket.create_connection((host, port), 2); return 'reached'\n"
            "    except OSError as problem: return 'refused'\n"
            f"print(reach('127.0.0.1', {port}), reach('1.1.1.1', 80))"
        )
        assert (await talk.run(code, CellLimits())).stdout == "refused refused\n"


@pytest.mark.spec("KERN-1")
async def test_none_of_a_kernels_sockets_belongs_to_the_hosts_network(start: Start) -> None:
    """The other end of one would be the engine: by SIOCGIFCONF it would list the host's devices."""
    _, talk = await start()
    code = """
import array, fcntl, os, socket, stat, struct
def devices(fd):
    room = array.array('B', bytes(4096))
    size, _ = struct.unpack('iL', fcntl.ioctl(fd, 0x8912, struct.pack('iL', 4096, room.buffer_info()[0])))
    return {room.tobytes()[at:at + 16].split(b'\\0')[0].decode() for at in range(0, size, 40)}
seen = set()
for fd in map(int, os.listdir('/proc/self/fd')):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode): seen |= devices(fd)
    except OSError: pass
print(sorted(seen))
"""
    assert (await talk.run(code, CellLimits())).stdout == "['lo']\n"


@pytest.mark.spec("KERN-1", "BOX-6")
async def test_a_kernel_with_a_workspace_writes_there_and_cannot_use_a_socket_file_in_it(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "note").write_text("from the host")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "door"))
        server.listen()
        _, talk = await start(workspace=Mount(tmp_path))
        cell = await talk.run("print(open('note').read()); open('out', 'w').write('from the cell'); None", CellLimits())
        assert cell.stdout == "from the host\n"
        assert (tmp_path / "out").read_text() == "from the cell"
        cell = await talk.run("import socket; socket.socket(socket.AF_UNIX).connect('door')", CellLimits())
        assert cell.error is not None
        assert cell.error.type in ("PermissionError", "OSError")


@pytest.mark.spec("KERN-1")
async def test_a_message_larger_than_may_be_is_cut_and_the_engine_keeps_its_memory(start: Start) -> None:
    _, talk = await start()
    code = "get_ipython().kernel.iopub_thread.socket.send_multipart([b'x' * (65 << 20)])\nimport time; time.sleep(30)"
    before = psutil.Process().memory_info().rss
    cell = await talk.run(code, CellLimits(wall_s=1.0, grace_s=1.0))
    assert cell.end in (End.TIMEOUT, End.ERROR)  # what it says then may or may not be heard on the next connection
    assert psutil.Process().memory_info().rss - before < 32 << 20


async def test_most_attempts_in_python_are_made_from_cells(stage: Stage) -> None:
    python = [each for each in attempts_on("namespace") if each.language is Language.PYTHON]
    assert sum(map(fits, python)) > len(python) // 2

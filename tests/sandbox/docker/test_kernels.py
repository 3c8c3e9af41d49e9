"""Kernels in containers: the same as in boxes (`tests/sandbox/kernels`), over the container's own streams."""

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nbclient
import nbformat
import pytest
import pytest_asyncio
import zmq.asyncio
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager, start_new_async_kernel

from sandbox.contract import Destination, End, Job, Limits, Mount, SandboxError, Unsupported, Writes
from sandbox.docker import inlets
from sandbox.docker.backend import DockerSandbox
from sandbox.docker.config import DockerConfig
from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.kernel_client import KernelClient
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import CellLimits, KernelDied, KernelSpec
from sandbox.service_handle import ServiceHandle
from tests.eventually import eventually, eventually_sync
from tests.sandbox.docker.test_containers import engine, ours
from tests.sandbox.kernels.starting import ANN, BOB, Start, starting
from tests.sandbox.test_cleanup import marked

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("KERN-1", "BOX-9")]
ROOT = Path(__file__).parents[3]
WAIT_S = 60
SHORT = CellLimits(wall_s=0.5, grace_s=10.0)
# A cell may begin late, because of gVisor's kernel and the load of the machine.
PATIENT = CellLimits(wall_s=60.0, grace_s=20.0)


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["", pytest.param("runsc", marks=pytest.mark.gvisor)]
)
async def box(request: pytest.FixtureRequest) -> AsyncIterator[DockerSandbox]:
    """Yield a sandbox with the engine's default runtime, and one with gVisor."""
    async with DockerSandbox(DockerConfig(runtime=request.param)) as sandbox:
        yield sandbox


@pytest.fixture(scope="module", autouse=True)
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of the kernels' sockets, and check that it is empty afterwards."""
    place = tmp_path_factory.mktemp("runtime")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(place))
        yield place
    assert not list(place.iterdir())


@pytest_asyncio.fixture(loop_scope="module")
async def start(box: DockerSandbox) -> AsyncIterator[Start]:
    """Yield a function that starts a kernel, and returns it with a client that is ready."""
    async with starting(box) as begin:
        yield begin


class TestCells:
    async def test_variables_are_kept_between_cells(self, start: Start) -> None:
        _, talk = await start()
        assert (await talk.run("import math\nx = 20", PATIENT)).ok
        cell = await talk.run("print('so', math.floor(x + 1.5)); x", PATIENT)
        assert (cell.end, cell.stdout, cell.count) == (End.OK, "so 21\n", 2)
        assert cell.outputs[-1].data == {"text/plain": "20"}

    @pytest.mark.spec("KERN-5")
    async def test_a_timeout_interrupts_the_cell_and_keeps_the_state(self, start: Start) -> None:
        kernel, talk = await start()
        await talk.run("x = 1", PATIENT)
        for endless in ("while True: x += 1", "import time; time.sleep(60)", "!sleep 60"):
            cell = await talk.run(endless, SHORT)
            assert (cell.end, cell.state_lost) == (End.TIMEOUT, None)
        assert kernel.alive
        assert (await talk.run("assert x >= 1", PATIENT)).ok

    @pytest.mark.spec("KERN-5")
    async def test_a_cancelled_cell_is_interrupted_and_the_next_one_is_not_affected(self, start: Start) -> None:
        _, talk = await start()
        for _ in range(5):
            running = asyncio.ensure_future(talk.run("import time\nprint('old')\ntime.sleep(60)", PATIENT))
            await asyncio.wait((running,), timeout=0.2)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            cell = await talk.run("print('new')", PATIENT)
            assert (cell.end, cell.stdout) == (End.OK, "new\n")

    @pytest.mark.spec("KERN-5")
    async def test_a_cell_that_ignores_its_interrupt_is_killed_with_the_kernel(self, start: Start) -> None:
        kernel, talk = await start()
        code = "import time\nwhile True:\n    try: time.sleep(30)\n    except KeyboardInterrupt: pass"
        cell = await talk.run(code, CellLimits(wall_s=0.5, grace_s=0.5))
        assert cell.end is End.TIMEOUT
        assert "the kernel ended" in str(cell.state_lost)
        assert not kernel.alive

    @pytest.mark.spec("KERN-5")
    @pytest.mark.parametrize(
        ("code", "end"),
        [("import os; os.kill(os.getpid(), 9)", End.KILLED), ("import os; os._exit(0)", End.ERROR)],
    )
    async def test_a_kernel_that_dies_in_a_cell_ends_the_cell_at_once(self, start: Start, code: str, end: End) -> None:
        _, talk = await start()
        cell = await talk.run(code, PATIENT)
        assert cell.end is end
        assert cell.state_lost

    @pytest.mark.spec("KERN-6")
    async def test_memory_over_the_limit_is_an_error_of_the_cell_or_the_end_of_the_kernel(
        self, box: DockerSandbox, start: Start
    ) -> None:
        _, talk = await start(memory_bytes=256 << 20)
        if not box._config.runtime:  # gVisor grants memory that is not touched
            cell = await talk.run("x = bytearray(400 << 20)", PATIENT)
            assert cell.error is not None
            assert cell.error.type == "MemoryError"
        children = (
            "import subprocess\n"
            "code = 'import time; x = bytearray(150 << 20); time.sleep(60)'\n"
            "all_ = [subprocess.Popen(['python3', '-c', code]) for _ in range(4)]\n"
            "[each.wait() for each in all_]"
        )
        cell = await talk.run(children, PATIENT)
        assert cell.end is End.MEMORY
        assert cell.state_lost

    @pytest.mark.spec("KERN-4", "BOX-12")
    async def test_endless_printing_is_interrupted_and_little_of_it_is_kept(self, start: Start) -> None:
        kernel, talk = await start(memory_bytes=256 << 20)
        limits = CellLimits(wall_s=60, output_bytes=16 << 20, kept_bytes=1 << 16, grace_s=20)
        cell = await talk.run("while True: print('x' * 9999)", limits)
        assert cell.end is End.OUTPUT
        assert len(cell.stdout) <= 1 << 16
        assert cell.dropped_bytes > 8 << 20
        assert kernel.alive
        assert (await talk.run("1", PATIENT)).ok

    @pytest.mark.spec("KERN-4")
    async def test_one_very_large_print_arrives_completely(self, start: Start) -> None:
        _, talk = await start()
        cell = await talk.run("print('é' * 10_000_000, end='')", CellLimits(wall_s=60, kept_bytes=64 << 20))
        assert (cell.end, len(cell.stdout), set(cell.stdout)) == (End.OK, 10_000_000, {"é"})

    @pytest.mark.spec("KERN-4")
    async def test_a_client_that_does_not_read_does_not_delay_other_clients(self, start: Start) -> None:
        kernel, talk = await start()
        context = zmq.asyncio.Context()
        deaf = context.socket(zmq.SUB)
        deaf.set(zmq.RCVHWM, 1)
        deaf.subscribe(b"")
        deaf.connect(f"ipc://{kernel.connection['ip']}-2")
        await talk.run("import threading", PATIENT)
        # Printing waits for its reader in a separate thread; the shell must continue.
        await talk.run("t = threading.Thread(target=print, args=('x' * 30_000_000,), daemon=True)\nt.start()", PATIENT)
        reply = await asyncio.wait_for(_ask(kernel, context), WAIT_S)
        assert reply["content"]["status"] == "ok"
        deaf.close(linger=0)
        context.destroy(linger=0)

    async def test_a_container_has_no_network(self, start: Start) -> None:
        _, talk = await start()
        cell = await talk.run("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=5)", PATIENT)
        assert cell.error is not None
        assert cell.error.message.endswith(("Network is unreachable", "No route to host"))  # gVisor says the second

    async def test_a_kernel_starts_in_the_workspace(self, start: Start, place: Path) -> None:
        (place / "data.csv").write_text("a,b\n")
        _, talk = await start(workspace=Mount(place))
        cell = await talk.run("import os\nopen('out.txt', 'w').write(open('data.csv').read())\nos.getcwd()", PATIENT)
        assert cell.outputs[-1].data == {"text/plain": "'/work'"}
        assert (place / "out.txt").read_text() == "a,b\n"
        _, reader = await start(workspace=Mount(place, Writes.NO))
        cell = await reader.run("open('/work/again.txt', 'w')", PATIENT)
        assert cell.error is not None
        assert not (place / "again.txt").exists()

    async def test_processes_that_cells_started_die_with_the_kernel(self, box: DockerSandbox, start: Start) -> None:
        mark = f"{os.getpid()}.99"
        kernel, talk = await start()
        code = f"import subprocess; child = subprocess.Popen(['sleep', '{mark}'], start_new_session=True)"
        assert (await talk.run(code, PATIENT)).ok
        if not box._config.runtime:  # processes in gVisor are not processes of the host
            assert marked(mark)
        running = {found["Id"] for found in ours(box._owner.name)}
        await kernel.kill()
        assert not marked(mark)
        # At least one is gone: a container of an earlier test may be ending, too.
        await eventually(lambda: bool(running - {found["Id"] for found in ours(box._owner.name)}))

    async def test_four_concurrent_kernels_are_separate(self, start: Start) -> None:
        talks = [talk for _, talk in [await start() for _ in range(4)]]
        await asyncio.gather(*(talk.run(f"x = {number}", PATIENT) for number, talk in enumerate(talks)))
        cells = await asyncio.gather(*(talk.run("print(x, end='')", PATIENT) for talk in talks))
        assert [cell.stdout for cell in cells] == ["0", "1", "2", "3"]

    @pytest.mark.spec("KERN-3", "KERN-5")
    async def test_a_pool_keeps_kernels_by_name_and_reports_a_loss_once(self, box: DockerSandbox) -> None:
        async with KernelPool(box, PoolConfig(warm=1)) as pool:
            assert (await pool.run(ANN, "x = 1", limits=PATIENT)).ok
            assert (await pool.run(BOB, "x = 2", limits=PATIENT)).ok
            assert (await pool.run(ANN, "print(x)", limits=PATIENT)).stdout == "1\n"
            died = await pool.run(ANN, "import os; os._exit(1)", limits=PATIENT)
            assert "State was lost" in str(died.state_lost)
            after = await pool.run(ANN, "x", limits=PATIENT)
            assert after.error is not None
            assert (after.error.type, after.state_lost) == ("NameError", None)
            assert (await pool.run(BOB, "print(x)", limits=PATIENT)).stdout == "2\n"


class TestEnds:
    async def test_a_cancelled_start_leaves_nothing(self, box: DockerSandbox, folders: Path) -> None:
        shape = KernelSpec(processes=33)  # no container with this shape is ready
        for wait in (0.0, 0.05, 0.3, 0.6):
            task = asyncio.ensure_future(BoxedKernel.start(box, shape))
            await asyncio.wait((task,), timeout=wait)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                kernel = await task
                await kernel.kill()
                kernel.forget()
            assert not list(folders.iterdir())

    async def test_a_pool_that_is_closed_while_kernels_start_leaves_none(
        self, box: DockerSandbox, folders: Path
    ) -> None:
        for wait in (0.02, 0.05, 0.1, 0.2, 0.4):
            pool = KernelPool(box, PoolConfig(warm=2))
            task = asyncio.ensure_future(pool.warm_up(KernelSpec()))
            await asyncio.wait((task,), timeout=wait)
            await pool.aclose()
            await asyncio.wait((task,))
            assert not list(folders.iterdir())

    async def test_a_closed_sandbox_has_ended_its_kernels(self) -> None:
        box = DockerSandbox()
        kernel = await BoxedKernel.start(box, KernelSpec())
        await box.aclose()
        assert not kernel.alive
        assert not ours(box._owner.name)
        kernel.forget()

    async def test_removing_a_container_ends_its_kernel(self) -> None:
        async with DockerSandbox() as box:
            kernel = await BoxedKernel.start(box, KernelSpec())
            with contextlib.closing(engine()) as api:
                for found in ours(box._owner.name):
                    await asyncio.to_thread(api.remove_container, found["Id"], force=True)
            await asyncio.wait_for(kernel.gone(), WAIT_S)
            assert "killed" in kernel.why or "ended before" in kernel.why
            kernel.forget()

    async def test_a_kernel_leaves_no_descriptor_and_no_thread_in_the_engine(self, start: Start) -> None:
        async def once() -> None:
            kernel, talk = await start()
            await talk.run("1", PATIENT)
            talk.close()
            kernel.forget()
            await kernel.kill()

        await once()
        await once()
        before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        for _ in range(4):
            await once()
        after = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        assert after[0] <= before[0] + 6  # connections of the waiting containers, and of the SDK's own pool
        assert after[1] <= before[1] + 3

    async def test_the_streams_of_process_1_are_out_of_reach_of_a_cell(self) -> None:
        async with DockerSandbox() as box, KernelPool(box, PoolConfig(warm=0)) as pool:
            for descriptor in (0, 1, 2):
                code = f"open('/proc/1/fd/{descriptor}', 'r+b', buffering=0).write(b'x' * 64)"
                cell = await pool.run(ANN, code, limits=PATIENT)
                assert cell.error is not None
                assert cell.error.type == "PermissionError"
            cell = await pool.run(ANN, "import os; os.kill(1, 9)", limits=PATIENT)
            assert cell.error is None or cell.error.type == "PermissionError"
            assert (await pool.run(ANN, "print('here')", limits=PATIENT)).stdout == "here\n"

    async def test_unsupported_features_are_refused_by_name(self, box: DockerSandbox) -> None:
        handle = ServiceHandle([61001])
        with pytest.raises(Unsupported, match="egress"):
            await box.run_service(Job(code="1", egress=(Destination("example.com", 443),)), handle)
        with pytest.raises(SandboxError, match="limit"):
            await box.run_service(Job(code="1", limits=Limits(wall_s=0)), handle)
        handle.close()

    async def test_an_image_without_ipykernel_says_what_to_install(self) -> None:
        name = f"knackbox-bare-{os.getpid()}"
        with contextlib.closing(engine()) as api:
            with contextlib.closing(io.BytesIO(_DOCKERFILE)) as recipe:
                for said in api.build(fileobj=recipe, tag=name, network_mode="none", rm=True, decode=True):
                    assert "error" not in said
            context = zmq.asyncio.Context()
            try:
                async with DockerSandbox(DockerConfig(image=name)) as bare:
                    kernel = await BoxedKernel.start(bare, KernelSpec())
                    with pytest.raises(KernelDied, match="pip install ipykernel in their image"):
                        await KernelClient.with_ready(kernel, context)
                    kernel.forget()
            finally:
                context.destroy(linger=0)
                api.remove_image(name, force=True)


_DOCKERFILE = b"FROM knackbox-box\nUSER root\nRUN rm -r /usr/local/lib/python3*/dist-packages\n"
ENGINE = """
import asyncio, sys
from sandbox.docker.backend import DockerSandbox
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import KernelOwner

async def main():
    async with DockerSandbox() as box, KernelPool(box, PoolConfig(warm=1)) as pool:
        cells = await asyncio.gather(*(pool.run(KernelOwner("local", agent), sys.argv[1]) for agent in ("ann", "bob")))
        print("ready" if all(cell.ok for cell in cells) else cells, flush=True)
        await asyncio.gather(*(pool.run(KernelOwner("local", agent), "while True: print(1)") for agent in ("ann", "bob")))

asyncio.run(main())
"""


def containers_of(pid: int) -> list[str]:
    with contextlib.closing(engine()) as api:
        found = api.containers(all=True, filters={"label": "knackbox.owner"})
    return [each["Id"] for each in found if each["Labels"]["knackbox.owner"].startswith(f"{pid}.")]


@pytest.mark.spec("BOX-4")
def test_kill_9_of_the_engine_leaves_nothing_of_its_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    mark = f"{os.getpid()}.888"
    code = f"import subprocess; child = subprocess.Popen(['sleep', '{mark}'], start_new_session=True)"
    process = subprocess.Popen([sys.executable, "-c", ENGINE, code], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert len(marked(mark)) == 2
    assert containers_of(process.pid)
    assert list(tmp_path.iterdir())
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    eventually_sync(lambda: not marked(mark))
    eventually_sync(lambda: not containers_of(process.pid))
    inlets.sweep()  # as the next engine does
    assert not list(tmp_path.iterdir())


class TestJupyter:
    @pytest.fixture(params=["", pytest.param("runsc", marks=pytest.mark.gvisor)])
    def specs(
        self, request: pytest.FixtureRequest, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> KernelSpecManager:
        """Return a manager with a kernelspec like a user's, and no other kernelspecs."""
        (place / "data.csv").write_text("a,b\n1,2\n")
        folder = tmp_path / "kernels" / "contained"
        folder.mkdir(parents=True)
        config = {"backend": "docker", "runtime": request.param, "memory_bytes": 512 << 20, "workspace": str(place)}
        provisioner = {"provisioner_name": "knackbox", "config": config}
        spec = {"argv": [], "display_name": "C", "language": "python", "metadata": {"kernel_provisioner": provisioner}}
        (folder / "kernel.json").write_text(json.dumps(spec))
        monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
        return KernelSpecManager()

    async def test_a_manager_starts_interrupts_restarts_and_shuts_down(self, specs: KernelSpecManager) -> None:
        manager, client = await start_new_async_kernel(
            kernel_name="contained", kernel_spec_manager=specs, startup_timeout=WAIT_S
        )
        try:
            assert manager.transport == "ipc"
            reply = await client.execute_interactive("x = 1", timeout=WAIT_S)
            assert reply["content"]["status"] == "ok"
            sleeping = client.execute("print(1, flush=True); import time; time.sleep(60)")
            while True:
                message = await client.get_iopub_msg(timeout=WAIT_S)
                if message["parent_header"].get("msg_id") == sleeping and message["msg_type"] == "stream":
                    break
            await manager.interrupt_kernel()
            assert (await client.get_shell_msg(timeout=WAIT_S))["content"]["ename"] == "KeyboardInterrupt"
            before = manager.get_connection_info()
            await manager.restart_kernel(now=True)
            assert manager.get_connection_info() == before
            await client.wait_for_ready(timeout=WAIT_S)
            reply = await client.execute_interactive("x", timeout=WAIT_S, output_hook=lambda _: None)
            assert reply["content"]["ename"] == "NameError"
        finally:
            client.stop_channels()
            await manager.shutdown_kernel()
        assert not await manager.is_alive()

    def test_a_blocking_client_is_served_without_a_running_loop(self, specs: KernelSpecManager) -> None:
        manager = KernelManager(kernel_name="contained", kernel_spec_manager=specs)
        manager.start_kernel()
        client: BlockingKernelClient = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=WAIT_S)
            seen: list[str] = []
            hook = lambda message: seen.append(message["content"].get("text", ""))  # noqa: E731
            client.execute_interactive("print(open('data.csv').read())", timeout=WAIT_S, output_hook=hook)
            assert "a,b\n1,2\n" in "".join(seen)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)

    @pytest.mark.usefixtures("specs")
    def test_nbclient_runs_a_notebook(self) -> None:
        sources = ["rows = open('data.csv').read().split()", "len(rows)", "raise ValueError('no')", "!hostname"]
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
        nbclient.NotebookClient(notebook, kernel_name="contained", allow_errors=True, timeout=WAIT_S).execute()
        outputs = [cell.outputs for cell in notebook.cells]
        assert outputs[1][0].data["text/plain"] == "2"
        assert outputs[2][0].ename == "ValueError"
        assert outputs[3][0].text == "box\n"


async def _ask(kernel: BoxedKernel, context: "zmq.asyncio.Context") -> dict[str, dict[str, str]]:
    """Send one request on the shell channel with another client, and return the reply."""
    talk = KernelClient(kernel, context)
    try:
        talk._client.kernel_info()
        reply: dict[str, dict[str, str]] = await talk._client.get_shell_msg(timeout=WAIT_S)
        return reply
    finally:
        talk.close()

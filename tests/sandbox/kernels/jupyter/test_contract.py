"""Our provisioner fulfils the contract of jupyter_client, tested through its managers."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.ioloop.manager import AsyncIOLoopKernelManager
from jupyter_client.manager import AsyncKernelManager, KernelManager
from jupyter_client.multikernelmanager import AsyncMultiKernelManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from sandbox.contract import SandboxError
from sandbox.kernels import kernelspec
from tests.sandbox.kernels.jupyter.private import NAME, WAIT_S

REPOSITORY = Path(__file__).parents[4]
pytestmark = [pytest.mark.spec("KERN-1", "KERN-2"), pytest.mark.usefixtures("jupyter_home")]


@asynccontextmanager
async def started(name: str = NAME, **told: object) -> AsyncIterator[tuple[AsyncKernelManager, AsyncKernelClient]]:
    manager = AsyncKernelManager(kernel_name=name)
    await manager.start_kernel(**told)
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=WAIT_S)
        yield manager, client
    finally:
        client.stop_channels()
        if manager.has_kernel:
            await manager.shutdown_kernel(now=True)
        else:
            await manager.cleanup_resources()


async def printed(client: AsyncKernelClient, code: str) -> str:
    said: list[str] = []
    reply = await client.execute_interactive(
        code, timeout=WAIT_S, output_hook=lambda message: said.append(message["content"].get("text", ""))
    )
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(said)


async def seen(client: AsyncKernelClient, request: str, kind: str) -> None:
    """Wait for a message of this kind that answers the request."""
    while True:
        message = await client.get_iopub_msg(timeout=WAIT_S)
        if message["parent_header"].get("msg_id") == request and message["msg_type"] == kind:
            return


def test_jupyter_finds_the_provisioner_by_its_name() -> None:
    assert NAME in KernelProvisionerFactory.instance().get_provisioner_entries()


async def test_a_kernel_starts_is_polled_and_shuts_down() -> None:
    async with started() as (manager, client):
        provisioner = manager.provisioner
        assert manager.has_kernel
        assert provisioner.has_process
        assert await provisioner.poll() is None
        assert await manager.is_alive()
        assert await printed(client, "import socket; print(socket.gethostname())") == "box\n"
        await manager.shutdown_kernel()
        assert not manager.has_kernel
        assert not provisioner.has_process
        assert await provisioner.poll() == 0
        assert not await manager.is_alive()


async def test_a_shutdown_is_requested_before_it_is_forced(jupyter_home: Path) -> None:
    async with started() as (manager, client):
        provisioner = manager.provisioner
        await printed(client, "import atexit; atexit.register(lambda: open('/work/asked', 'w').close())")
        await manager.shutdown_kernel(now=False)
        assert not provisioner.has_process
        assert (jupyter_home / "workspace" / "asked").exists()


async def test_wait_returns_the_exit_code_when_the_kernel_ends() -> None:
    async with started() as (manager, client):
        waiting = asyncio.ensure_future(manager.provisioner.wait())
        client.execute("import os; os._exit(7)")
        assert await asyncio.wait_for(waiting, WAIT_S) == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_terminating_signal_ends_the_kernel(number: signal.Signals) -> None:
    async with started() as (manager, _):
        await manager.signal_kernel(number)
        code = await asyncio.wait_for(manager.provisioner.wait(), WAIT_S)
        assert code == -number
        assert not await manager.is_alive()


async def test_signal_zero_changes_nothing() -> None:
    async with started() as (manager, client):
        await manager.signal_kernel(0)
        assert await printed(client, "print(1)") == "1\n"


@pytest.mark.spec("KERN-5")
async def test_any_other_signal_reaches_the_code() -> None:
    async with started() as (manager, client):
        await printed(client, "import signal, threading; there = threading.Event()")
        await printed(client, "_ = signal.signal(signal.SIGUSR1, lambda *_: there.set())")
        await manager.signal_kernel(signal.SIGUSR1)
        assert await printed(client, "print(there.wait(20))") == "True\n"


@pytest.mark.spec("KERN-5")
async def test_an_interrupt_ends_the_cell_and_keeps_the_state() -> None:
    async with started() as (manager, client):
        await printed(client, "kept = 42")
        request = client.execute("print(1, flush=True)\nwhile True: pass")
        await seen(client, request, "stream")
        await manager.interrupt_kernel()
        while (reply := await client.get_shell_msg(timeout=WAIT_S))["parent_header"]["msg_id"] != request:
            pass
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        await seen(client, request, "status")
        assert await printed(client, "print(kept)") == "42\n"


@pytest.mark.parametrize("now", [True, False])
async def test_a_restart_keeps_the_connection_and_loses_the_state(now: bool) -> None:
    async with started() as (manager, client):
        await printed(client, "gone = 1; open('/tmp/gone', 'w').close()")
        before = manager.get_connection_info()
        await manager.restart_kernel(now=now)
        assert manager.get_connection_info() == before
        await client.wait_for_ready(timeout=WAIT_S)
        code = "import os; print('gone' in globals(), os.path.exists('/tmp/gone'))"
        assert await printed(client, code) == "False False\n"


@pytest.mark.parametrize("what", ["restarts", "departures"])
def test_neither_restarts_nor_cancelled_starts_leave_descriptors_open(what: str) -> None:
    """Run in a fresh process, because sockets of other tests are opened and closed in this one."""
    command = [sys.executable, "-m", "tests.sandbox.kernels.jupyter.descriptor_probe", what]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["after"] <= found["most"]


async def test_the_manager_restarts_a_kernel_that_died() -> None:
    manager = AsyncIOLoopKernelManager(kernel_name=NAME)
    manager.autorestart = True
    restarted = asyncio.Event()
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=WAIT_S)
        manager.add_restart_callback(restarted.set, "restart")
        client.execute("import os; os.kill(os.getpid(), 9)")
        await asyncio.wait_for(restarted.wait(), WAIT_S)
        await client.wait_for_ready(timeout=WAIT_S)
        assert await printed(client, "print('again')") == "again\n"
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


async def test_concurrent_kernels_are_separate() -> None:
    many = AsyncMultiKernelManager(default_kernel_name=NAME)
    try:
        names = await asyncio.gather(*(many.start_kernel() for _ in range(4)))
        clients = [many.get_kernel(name).client() for name in names]
        for client in clients:
            client.start_channels()
        await asyncio.gather(*(client.wait_for_ready(timeout=WAIT_S) for client in clients))
        await asyncio.gather(*(printed(client, f"mine = {number}") for number, client in enumerate(clients)))
        told = await asyncio.gather(*(printed(client, "print(mine)") for client in clients))
        assert told == ["0\n", "1\n", "2\n", "3\n"]
        assert set(many.list_kernel_ids()) == set(names)
        await many.shutdown_kernel(names[0], now=True)
        assert await printed(clients[1], "print(mine)") == "1\n"
    finally:
        for client in clients:
            client.stop_channels()
        await many.shutdown_all(now=True)


def test_a_blocking_manager_works() -> None:
    manager = KernelManager(kernel_name=NAME)
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=WAIT_S)
        request = client.execute("print(1, flush=True)\nwhile True: pass")
        while client.get_iopub_msg(timeout=WAIT_S)["msg_type"] != "stream":
            pass
        manager.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=WAIT_S))["parent_header"]["msg_id"] != request:
            pass
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        manager.restart_kernel(now=True)
        client.wait_for_ready(timeout=WAIT_S)
        assert manager.is_alive()
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert not manager.is_alive()


def test_jupyter_run_runs_a_script_in_a_box(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import socket\nprint('on', socket.gethostname())\n")
    command = [sys.executable, "-m", "jupyter_client.runapp", f"--RunApp.kernel_name={NAME}", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert "on box" in done.stdout, done.stderr


def test_a_tool_that_ignores_provisioners_starts_nothing(jupyter_home: Path) -> None:
    """Run the command of the kernelspec with a connection file, as such a tool would."""
    spec = next(found for found in kernelspec.found() if found.name == NAME)
    argv = [word.replace("{connection_file}", str(jupyter_home / "c.json")) for word in command_of(spec.folder)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("knackbox: this kernel runs in a box only")
    assert done.stderr.count("\n") == 1


def command_of(folder: Path) -> list[str]:
    from jupyter_client.kernelspec import KernelSpec

    return list(KernelSpec.from_resource_dir(str(folder)).argv)


async def test_the_notebooks_folder_is_shown_only_where_the_kernelspec_says_so(
    jupyter_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "beside.csv").write_text("a,b\n")
    kernelspec.install("beside", "Beside", {"notebook_folder": True}, prefix=str(jupyter_home))
    async with started("beside", cwd=str(tmp_path)) as (_, client):
        assert await printed(client, "print(open('beside.csv').read(), end='')") == "a,b\n"
    async with started(cwd=str(tmp_path)) as (_, client):
        assert await printed(client, "import os; print(os.path.exists('beside.csv'))") == "False\n"


async def test_a_notebook_at_the_top_of_a_home_does_not_show_the_home(
    jupyter_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home" / "ada"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    kernelspec.install("beside", "Beside", {"notebook_folder": True}, prefix=str(jupyter_home))
    for folder in (home, home.parent):
        with pytest.raises(SandboxError, match="contains a home folder"):
            await AsyncKernelManager(kernel_name="beside").start_kernel(cwd=str(folder))

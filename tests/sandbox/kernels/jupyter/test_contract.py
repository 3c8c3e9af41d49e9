"""What jupyter_client asks of a provisioner, asked of ours through its managers."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
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
from tests.descriptors import open_descriptors
from tests.sandbox.kernels.jupyter.private import NAME, WAIT_S

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
    """Wait until a message of that kind is there for the request."""
    while True:
        message = await client.get_iopub_msg(timeout=WAIT_S)
        if message["parent_header"].get("msg_id") == request and message["msg_type"] == kind:
            return


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def test_jupyter_finds_the_provisioner_by_its_name() -> None:
    assert NAME in KernelProvisionerFactory.instance().get_provisioner_entries()


async def test_it_starts_is_polled_and_shuts_down() -> None:
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


async def test_a_shutdown_is_asked_for_before_it_is_forced(jupyter_home: Path) -> None:
    async with started() as (manager, client):
        provisioner = manager.provisioner
        await printed(client, "import atexit; atexit.register(lambda: open('/work/asked', 'w').close())")
        await manager.shutdown_kernel(now=False)
        assert not provisioner.has_process
        assert (jupyter_home / "workspace" / "asked").exists()


async def test_waiting_ends_with_the_kernel_and_tells_its_exit_code() -> None:
    async with started() as (manager, client):
        waiting = asyncio.ensure_future(manager.provisioner.wait())
        client.execute("import os; os._exit(7)")
        assert await asyncio.wait_for(waiting, WAIT_S) == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_signal_that_ends_it_ends_it(number: signal.Signals) -> None:
    async with started() as (manager, _):
        await manager.signal_kernel(number)
        code = await asyncio.wait_for(manager.provisioner.wait(), WAIT_S)
        assert code == -number
        assert not await manager.is_alive()


async def test_the_signal_that_only_asks_changes_nothing() -> None:
    async with started() as (manager, client):
        await manager.signal_kernel(0)
        assert await printed(client, "print(1)") == "1\n"


@pytest.mark.spec("KERN-5")
async def test_a_signal_of_its_own_choice_reaches_the_code() -> None:
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


async def test_ten_restarts_leave_nothing_behind() -> None:
    async with started() as (manager, client):
        await manager.restart_kernel(now=True)
        await client.wait_for_ready(timeout=WAIT_S)
        before = len(open_descriptors())
        for _ in range(10):
            await manager.restart_kernel(now=True)
            await client.wait_for_ready(timeout=WAIT_S)
        await until(lambda: len(open_descriptors()) <= before + 4)  # a warm box more, or two


async def test_a_kernel_that_died_is_started_again_by_its_manager() -> None:
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


async def test_several_at_once_are_apart() -> None:
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


async def leave_while_it_starts() -> None:
    manager = AsyncKernelManager(kernel_name=NAME)
    starting = asyncio.ensure_future(manager.start_kernel())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    if manager.has_kernel:
        await manager.shutdown_kernel(now=True)
    else:
        await manager.cleanup_resources()


async def test_whoever_leaves_before_it_is_ready_leaves_nothing_behind() -> None:
    async with started():
        pass
    before = len(open_descriptors())
    for _ in range(20):
        await leave_while_it_starts()
    # Two warm boxes more, with as many just being made, are a dozen; a descriptor left by each would be twenty.
    await until(lambda: len(open_descriptors()) <= before + 12)


def test_a_blocking_manager_does_it_all() -> None:
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
    """Raw: the command as the kernelspec has it, with a connection file, as such a tool would run it."""
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
        with pytest.raises(SandboxError, match="whole home folder"):
            await AsyncKernelManager(kernel_name="beside").start_kernel(cwd=str(folder))

"""Jupyter clients get their kernels in boxes, by kernelspec."""

import json
from pathlib import Path

import nbclient
import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager, KernelManager, start_new_async_kernel
from jupyter_client.session import Session

pytestmark = [pytest.mark.spec("KERN-1", "KERN-2")]
WAIT_S = 30


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelSpecManager:
    """Yield a manager that knows only a kernelspec of ours."""
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "data.csv").write_text("a,b\n1,2\n")
    folder = tmp_path / "kernels" / "boxed"
    folder.mkdir(parents=True)
    config = {"memory_bytes": 512 << 20, "workspace": str(tmp_path / "shown")}
    provisioner = {"provisioner_name": "knackbox", "config": config}
    spec = {"argv": [], "display_name": "Boxed", "language": "python", "metadata": {"kernel_provisioner": provisioner}}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    return KernelSpecManager()


async def test_a_manager_starts_interrupts_and_shuts_down_a_kernel_in_a_box(specs: KernelSpecManager) -> None:
    manager, client = await start_new_async_kernel(
        kernel_name="boxed", kernel_spec_manager=specs, startup_timeout=WAIT_S
    )
    try:
        assert manager.transport == "ipc"
        reply = await client.execute_interactive("import os; print(os.getuid(), os.getcwd())", timeout=WAIT_S)
        assert reply["content"]["status"] == "ok"
        sleeping = client.execute("print(1, flush=True); import time; time.sleep(60)")
        while True:
            message = await client.get_iopub_msg(timeout=WAIT_S)
            if message["parent_header"].get("msg_id") == sleeping and message["msg_type"] == "stream":
                break
        await manager.interrupt_kernel()
        assert (await client.get_shell_msg(timeout=WAIT_S))["content"]["ename"] == "KeyboardInterrupt"
        assert await manager.is_alive()
    finally:
        client.stop_channels()
        await manager.shutdown_kernel()
    assert not await manager.is_alive()


async def test_clients_of_a_restarted_kernel_stay_connected(specs: KernelSpecManager) -> None:
    manager, client = await start_new_async_kernel(
        kernel_name="boxed", kernel_spec_manager=specs, startup_timeout=WAIT_S
    )
    try:
        await client.execute_interactive("x = 1", timeout=WAIT_S)
        before = manager.get_connection_info()
        await manager.restart_kernel(now=True)
        assert manager.get_connection_info() == before
        await client.wait_for_ready(timeout=WAIT_S)
        reply = await client.execute_interactive("x", timeout=WAIT_S, output_hook=lambda _: None)
        assert reply["content"]["ename"] == "NameError"
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


async def test_a_killed_kernel_is_reported_as_dead(specs: KernelSpecManager) -> None:
    manager, client = await start_new_async_kernel(
        kernel_name="boxed", kernel_spec_manager=specs, startup_timeout=WAIT_S
    )
    try:
        client.execute("import os; os.kill(os.getpid(), 9)")
        assert await manager.provisioner.wait() == -9
        assert not await manager.is_alive()
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


def test_a_blocking_client_is_served_without_a_running_loop(specs: KernelSpecManager) -> None:
    manager = KernelManager(kernel_name="boxed", kernel_spec_manager=specs)
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


def test_nbclient_runs_a_notebook_in_a_box(specs: KernelSpecManager) -> None:
    sources = [
        "from pathlib import Path\nrows = Path('data.csv').read_text().splitlines()\nPath('out.txt').write_text('done')",
        "from IPython.display import HTML\nHTML(f'<p>{len(rows)}</p>')",
        "raise ValueError('no')",
        "!hostname",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = nbclient.NotebookClient(
        notebook,
        kernel_name="boxed",
        allow_errors=True,
        timeout=WAIT_S,
        km=AsyncKernelManager(kernel_name="boxed", kernel_spec_manager=specs),
    )
    client.execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert outputs[1][0].data["text/html"] == "<p>2</p>"
    assert outputs[2][0].ename == "ValueError"
    assert outputs[3][0].text == "box\n"


def test_a_client_with_another_key_is_not_answered(specs: KernelSpecManager) -> None:
    manager = KernelManager(kernel_name="boxed", kernel_spec_manager=specs)
    manager.start_kernel()
    stranger: BlockingKernelClient = manager.blocking_client()
    stranger.session = Session(key=b"guessed")
    stranger.start_channels(hb=False)
    friend: BlockingKernelClient = manager.blocking_client()
    friend.start_channels()
    try:
        stranger.execute("open('/tmp/was-here', 'w')")
        friend.wait_for_ready(timeout=WAIT_S)
        reply = friend.execute_interactive("assert not __import__('os').path.exists('/tmp/was-here')", timeout=WAIT_S)
        assert reply["content"]["status"] == "ok"
    finally:
        stranger.stop_channels()
        friend.stop_channels()
        manager.shutdown_kernel(now=True)

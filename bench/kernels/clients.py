"""Runs cells in kernels, with the kernel pool or with Jupyter's client."""

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

from sandbox.kernels.pool import KernelPool
from sandbox.kernels.spec import CellLimits, KernelOwner

BOXED = "knackbox-bench"
STOCK = "python3"
WAIT_S = 60.0
_ASK_AGAIN_S = 0.1
_KEPT = CellLimits(wall_s=WAIT_S, kept_bytes=64 << 20)
_JUPYTERS = ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """The outcome of a cell.

    Attributes:
        characters: The length of its outputs.
    """

    success: bool
    characters: int


@contextmanager
def kernelspecs(folder: Path) -> Iterator[None]:
    """Install a kernelspec for our kernels in a separate folder, to which Jupyter also writes its files."""
    spec = folder / "kernels" / BOXED
    spec.mkdir(parents=True)
    named = {"kernel_provisioner": {"provisioner_name": "knackbox"}}
    (spec / "kernel.json").write_text(
        json.dumps({"argv": [], "display_name": BOXED, "language": "python", "metadata": named})
    )
    before = {name: os.environ.get(name) for name in _JUPYTERS}
    os.environ.update(dict.fromkeys(_JUPYTERS, str(folder)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


async def run_in_pool(pool: KernelPool, owner: KernelOwner, code: str) -> CellOutcome:
    cell = await pool.run(owner, code, limits=_KEPT)
    return CellOutcome(
        cell.ok, sum(len(each.text) + sum(len(str(part)) for part in each.data.values()) for each in cell.outputs)
    )


async def run_with_jupyter(client: AsyncKernelClient, code: str) -> CellOutcome:
    """Run a cell and wait, as the pool does, until the kernel is idle again and has replied."""
    request = client.execute(code, allow_stdin=False, stop_on_error=False)
    characters = 0
    while True:
        message = await client.get_iopub_msg(timeout=WAIT_S)
        if message["parent_header"].get("msg_id") != request:
            continue
        content = message["content"]
        if message["msg_type"] == "status" and content["execution_state"] == "idle":
            break
        if message["msg_type"] == "stream":
            characters += len(content["text"])
        elif "data" in content:
            characters += sum(map(len, content["data"].values()))
    while True:
        reply = await client.get_shell_msg(timeout=WAIT_S)
        if reply["parent_header"].get("msg_id") == request:
            return CellOutcome(reply["content"]["status"] == "ok", characters)


@dataclass(frozen=True, slots=True)
class StartedKernel:
    """A kernel started by Jupyter's manager, with its client."""

    manager: AsyncKernelManager
    client: AsyncKernelClient

    async def end(self) -> None:
        self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)


async def start_and_wait(kernel: str, transport: str) -> StartedKernel:
    """Start a kernel and wait as `start_new_async_kernel` does, which has no parameter for the transport."""
    started = await _start(kernel, transport)
    try:
        await started.client.wait_for_ready(timeout=WAIT_S)
    except BaseException:
        await started.end()
        raise
    return started


async def start_until_reply(kernel: str, transport: str) -> StartedKernel:
    """Start a kernel and wait, as our pool does, only until both channels have delivered a message."""
    started = await _start(kernel, transport)
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                started.client.kernel_info()
                await started.client.get_shell_msg(timeout=WAIT_S)
                with contextlib.suppress(Empty):  # messages published before the subscription arrives are lost
                    await started.client.get_iopub_msg(timeout=_ASK_AGAIN_S)
                    return started
    except BaseException:
        await started.end()
        raise


async def _start(kernel: str, transport: str) -> StartedKernel:
    manager = AsyncKernelManager(kernel_name=kernel, transport=transport)
    await manager.start_kernel(stderr=subprocess.DEVNULL)  # with TCP, the kernel prints a warning
    client = manager.client()
    client.start_channels()
    return StartedKernel(manager, client)


@asynccontextmanager
async def ready_kernel(kernel: str, transport: str) -> AsyncIterator[AsyncKernelClient]:
    """Start a kernel and yield its client when the kernel is ready."""
    started = await start_and_wait(kernel, transport)
    try:
        yield started.client
    finally:
        await started.end()

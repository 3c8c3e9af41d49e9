"""Running a cell in a kernel, in the same way for every kind of kernel: the pool's own, and Jupyter's client."""

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
from sandbox.kernels.spec import CellLimits

BOXED = "knackbox-bench"
STOCK = "python3"
WAIT_S = 60.0
_ASK_AGAIN_S = 0.1
_KEPT = CellLimits(wall_s=WAIT_S, kept_bytes=64 << 20)
_JUPYTERS = ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a cell. seen: characters of its outputs."""

    success: bool
    seen: int


@contextmanager
def kernelspecs(folder: Path) -> Iterator[None]:
    """A kernelspec of ours in a folder of its own, which also takes what Jupyter writes."""
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


async def in_pool(pool: KernelPool, agent: str, code: str) -> Seen:
    cell = await pool.run(agent, code, limits=_KEPT)
    return Seen(
        cell.ok, sum(len(each.text) + sum(len(str(part)) for part in each.data.values()) for each in cell.outputs)
    )


async def by_jupyter(client: AsyncKernelClient, code: str) -> Seen:
    """As the pool's client does it: until the kernel is idle again, and its reply is there."""
    request = client.execute(code, allow_stdin=False, stop_on_error=False)
    seen = 0
    while True:
        message = await client.get_iopub_msg(timeout=WAIT_S)
        if message["parent_header"].get("msg_id") != request:
            continue
        content = message["content"]
        if message["msg_type"] == "status" and content["execution_state"] == "idle":
            break
        if message["msg_type"] == "stream":
            seen += len(content["text"])
        elif "data" in content:
            seen += sum(map(len, content["data"].values()))
    while True:
        reply = await client.get_shell_msg(timeout=WAIT_S)
        if reply["parent_header"].get("msg_id") == request:
            return Seen(reply["content"]["status"] == "ok", seen)


@dataclass(frozen=True, slots=True)
class Started:
    """A kernel of Jupyter's manager, with its client."""

    manager: AsyncKernelManager
    client: AsyncKernelClient

    async def end(self) -> None:
        self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)


async def start_patiently(kernel: str, transport: str) -> Started:
    """As `start_new_async_kernel` does it, which takes no transport."""
    started = await _start(kernel, transport)
    try:
        await started.client.wait_for_ready(timeout=WAIT_S)
    except BaseException:
        await started.end()
        raise
    return started


async def start_at_once(kernel: str, transport: str) -> Started:
    """As our pool does it: until both channels have said something."""
    started = await _start(kernel, transport)
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                started.client.kernel_info()
                await started.client.get_shell_msg(timeout=WAIT_S)
                with contextlib.suppress(Empty):  # what is published before a subscription arrives is lost
                    await started.client.get_iopub_msg(timeout=_ASK_AGAIN_S)
                    return started
    except BaseException:
        await started.end()
        raise


async def _start(kernel: str, transport: str) -> Started:
    manager = AsyncKernelManager(kernel_name=kernel, transport=transport)
    await manager.start_kernel(stderr=subprocess.DEVNULL)  # over TCP it warns of that
    client = manager.client()
    client.start_channels()
    return Started(manager, client)


@asynccontextmanager
async def one(kernel: str, transport: str) -> AsyncIterator[AsyncKernelClient]:
    """A client of a kernel that is ready."""
    started = await start_patiently(kernel, transport)
    try:
        yield started.client
    finally:
        await started.end()

"""Times the cancellation of a running box: from `cancel` until `run` returns, when all of its processes are dead."""

import asyncio
import contextlib
import time

from bench.timing import Series
from sandbox.contract import Job, Stream
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox

WAY = "knackbox: cancel"
TITLE = "four processes in endless loops"
_CODE = "import os\nos.fork(); os.fork()\nprint('working', flush=True)\nwhile True: pass"
_PROCESSES = 4
_WAIT_S = 30


async def cancels(rounds: int) -> Series:
    """Run one box at a time, and cancel each when all of its processes are running."""
    async with NamespaceSandbox(NamespaceConfig(warm=1)) as box:
        return Series(TITLE, WAY, tuple([await _cancel(box) for _ in range(rounds)]))


async def _cancel(box: NamespaceSandbox) -> float:
    """Return the time to cancel one box in milliseconds.

    Raises:
        TimeoutError: The code did not start.
    """
    working = asyncio.Event()
    seen = bytearray()

    def listen(_stream: Stream, data: bytes) -> None:
        seen.extend(data)
        if seen.count(b"\n") >= _PROCESSES:
            working.set()

    running = asyncio.ensure_future(box.run(Job(code=_CODE), on_output=listen))
    await asyncio.wait_for(working.wait(), _WAIT_S)
    start = time.perf_counter()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return (time.perf_counter() - start) * 1e3

"""Starts kernels in a fresh process, and prints how many descriptors it has before and after.

The process is fresh so that other tests have no descriptors in it.

Argument: "restarts" or "departures". The environment says where Jupyter finds the kernelspec.
"""

import asyncio
import json
import sys

import pytest
from jupyter_client.manager import AsyncKernelManager

from tests.descriptors import open_descriptors
from tests.eventually import eventually
from tests.sandbox.kernels.jupyter.private import NAME, WAIT_S
from tests.sandbox.kernels.jupyter.test_contract import started


async def restarts() -> None:
    """Restart one kernel ten times, after a first restart that opens permanent descriptors."""
    async with started() as (manager, client):
        await manager.restart_kernel(now=True)
        await client.wait_for_ready(timeout=WAIT_S)
        before = len(open_descriptors())
        for _ in range(10):
            await manager.restart_kernel(now=True)
            await client.wait_for_ready(timeout=WAIT_S)
        await report(before, most=before + 4)  # there may be one or two more warm boxes


async def departures() -> None:
    """Cancel twenty managers while their kernels start."""
    async with started():
        pass
    before = len(open_descriptors())
    for _ in range(20):
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
    # Two more warm boxes and two that are being created have a dozen descriptors; one leaked by each would be twenty.
    await report(before, most=before + 12)


async def report(before: int, most: int) -> None:
    counts: list[int] = []

    def few() -> bool:
        counts.append(len(open_descriptors()))
        return counts[-1] <= most

    await eventually(few)
    print(json.dumps({"before": before, "after": counts[-1], "most": most}))


if __name__ == "__main__":
    asyncio.run({"restarts": restarts, "departures": departures}[sys.argv[1]]())

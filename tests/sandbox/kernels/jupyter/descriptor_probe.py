"""Starts kernels in a fresh process, where no descriptor is another test's, and prints how many it has before and after.

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
    """Ten restarts of one kernel, after one that opens what stays open."""
    async with started() as (manager, client):
        await manager.restart_kernel(now=True)
        await client.wait_for_ready(timeout=WAIT_S)
        before = len(open_descriptors())
        for _ in range(10):
            await manager.restart_kernel(now=True)
            await client.wait_for_ready(timeout=WAIT_S)
        await report(before, most=before + 4)  # a warm box more, or two


async def departures() -> None:
    """Twenty managers that are cancelled while their kernel starts."""
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
    # Two warm boxes more, with as many just being made, are a dozen; a descriptor left by each would be twenty.
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

"""Processes with kernels, to be killed by `kill_driver`: an engine with a pool, or a program with Jupyter's manager.

Arguments: which, a seed. Each writes `s` when a session begins, `.` after each step of one, and goes on until the end of
its stdin; then it closes what it has and leaves with 0. With another code it leaves when an answer was wrong.
"""

import asyncio
import contextlib
import os
import random
import select
import sys
from itertools import count

from jupyter_client.manager import AsyncKernelManager

from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.namespace.backend import NamespaceSandbox
from tests.sandbox.kernels.counting import COUNT, Counting

LANES = 3
_WAIT_S = 20


def say(mark: str) -> None:
    os.write(1, mark.encode())


def wanted() -> bool:
    """Whether whoever started this still has its stdin open."""
    return not select.select([0], [], [], 0)[0]


async def engine(chance: random.Random) -> None:
    """Agents whose kernels are taken from one pool; every lost state must be said, and none that is not."""
    numbers = count()
    async with NamespaceSandbox() as box, KernelPool(box, PoolConfig(warm=1, most=2 * LANES)) as pool:

        async def lane() -> None:
            while wanted():
                say("s")
                session = Counting(pool, f"agent {next(numbers)}", random.Random(chance.random()))
                for _ in range(chance.randint(1, 6)):
                    await chance.choice([session.go_on, session.go_on, session.cancel, session.die_in_a_cell])()
                    say(".")
                await pool.stop(session.agent)

        async with asyncio.TaskGroup() as group:
            for _ in range(LANES):
                group.create_task(lane())


async def provisioner(chance: random.Random) -> None:
    """Kernels started, asked, restarted and shut down by Jupyter's manager, of a kernelspec `boxed` in JUPYTER_PATH."""
    numbers = count()
    while wanted():
        say("s")
        file = os.path.join(os.environ["JUPYTER_RUNTIME_DIR"], f"kernel-{next(numbers)}.json")
        manager = AsyncKernelManager(kernel_name="boxed", connection_file=file)
        try:
            await _by_manager(manager, chance)
        except Exception:  # noqa: BLE001  (what Jupyter makes of a kernel that was killed is Jupyter's)
            say("x")
        finally:
            with contextlib.suppress(Exception):
                await manager.shutdown_kernel(now=True)


async def _by_manager(manager: AsyncKernelManager, chance: random.Random) -> None:
    await manager.start_kernel()
    say(".")
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=_WAIT_S)
        say(".")
        await client.execute_interactive(COUNT, timeout=_WAIT_S, output_hook=lambda _: None)
        say(".")
        await chance.choice([manager.interrupt_kernel, manager.restart_kernel, manager.shutdown_kernel])()
        say(".")
    finally:
        client.stop_channels()


if __name__ == "__main__":
    asyncio.run({"engine": engine, "provisioner": provisioner}[sys.argv[1]](random.Random(int(sys.argv[2]))))

"""Processes with kernels, to be killed by `kill_driver`: an engine with a pool, or a program with Jupyter's manager.

Arguments: the kind of victim, a seed. It writes `s` when a session begins and `.` after each step, and continues until
the end of its stdin. Then it closes everything and exits with code 0, or with another code if an answer was wrong.
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
from sandbox.kernels.spec import KernelOwner
from sandbox.namespace.backend import NamespaceSandbox
from tests.sandbox.kernels.counting import COUNT, Counting

LANES = 3
_WAIT_S = 20


def say(mark: str) -> None:
    os.write(1, mark.encode())


def wanted() -> bool:
    """Return whether the parent process still keeps stdin open."""
    return not select.select([0], [], [], 0)[0]


async def engine(chance: random.Random) -> None:
    """Run agents with kernels of one pool. Every lost state must be reported, and no other."""
    numbers = count()
    async with NamespaceSandbox() as box, KernelPool(box, PoolConfig(warm=1, most=2 * LANES)) as pool:

        async def lane() -> None:
            while wanted():
                say("s")
                session = Counting(pool, KernelOwner("local", f"agent {next(numbers)}"), random.Random(chance.random()))
                for _ in range(chance.randint(1, 6)):
                    await chance.choice([session.count_on, session.count_on, session.cancel, session.die_in_a_cell])()
                    say(".")
                await session.stop()

        async with asyncio.TaskGroup() as group:
            for _ in range(LANES):
                group.create_task(lane())


async def provisioner(chance: random.Random) -> None:
    """Start, use, restart and shut down kernels with Jupyter's manager, from the kernelspec `boxed` in JUPYTER_PATH."""
    numbers = count()
    while wanted():
        say("s")
        file = os.path.join(os.environ["JUPYTER_RUNTIME_DIR"], f"kernel-{next(numbers)}.json")
        manager = AsyncKernelManager(kernel_name="boxed", connection_file=file)
        try:
            await _by_manager(manager, chance)
        except Exception:  # noqa: BLE001  (any error that Jupyter raises for a killed kernel)
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

"""Times the start of a kernel until the result of its first cell."""

import time
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bench.kernels.clients import (
    STOCK,
    StartedKernel,
    run_in_pool,
    run_with_jupyter,
    start_and_wait,
    start_until_reply,
)
from bench.timing import Series
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import KernelOwner, KernelSpec
from sandbox.namespace.backend import NamespaceSandbox

POOL = "knackbox: from the pool"
FORKED = "knackbox: forked from a template"
COLD = "knackbox: nothing started before"
PLAIN = "stock, ipc, first reply"
_CELL = "6 * 7"
_OWNER = KernelOwner("bench", "")
_PAUSE_S = 0.2  # long enough for background work to finish and the pool of waiting boxes to refill


@dataclass(frozen=True, slots=True)
class _Way:
    """One way of starting a kernel.

    Attributes:
        run: The timed function. Returns whether the cell succeeded, and a function that stops the kernel.
        before: Called before each run; not timed.
    """

    run: Callable[[], Awaitable[tuple[bool, Callable[[], Awaitable[object]]]]]
    before: Callable[[], Awaitable[object]]


async def starts(rounds: int, tick: Callable[[], None]) -> list[Series]:
    """Return one series for each candidate.

    Raises:
        RuntimeError: A cell failed.
    """
    async with _pools() as (warm, forking):
        nothing = partial(sleep, 0)
        ways = {
            POOL: _Way(partial(_in_pool, warm), partial(warm.warm_up, KernelSpec())),
            FORKED: _Way(partial(_in_pool, forking), nothing),
            COLD: _Way(_cold, nothing),
            PLAIN: _Way(partial(_stock, start_until_reply, "ipc"), nothing),
            "stock, tcp, first reply": _Way(partial(_stock, start_until_reply, "tcp"), nothing),
            "stock, ipc, wait_for_ready": _Way(partial(_stock, start_and_wait, "ipc"), nothing),
            "stock, tcp, wait_for_ready": _Way(partial(_stock, start_and_wait, "tcp"), nothing),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for round_ in range(rounds + 1):
            for name, way in ways.items():
                await way.before()
                await sleep(_PAUSE_S)
                start = time.perf_counter()
                worked, end = await way.run()
                took = (time.perf_counter() - start) * 1e3
                await end()
                if not worked:
                    raise RuntimeError(f"{name}: the first cell failed")
                if round_:  # the first round is a warm-up
                    times[name].append(took)
            tick()
    return [Series("first cell", name, tuple(found)) for name, found in times.items()]


@asynccontextmanager
async def _pools() -> AsyncIterator[tuple[KernelPool, KernelPool]]:
    async with (
        NamespaceSandbox() as box,
        KernelPool(box, PoolConfig(warm=1)) as warm,
        KernelPool(box, PoolConfig(warm=0)) as forking,
    ):
        yield warm, forking


async def _in_pool(pool: KernelPool) -> tuple[bool, Callable[[], Awaitable[object]]]:
    return (await run_in_pool(pool, _OWNER, _CELL)).success, pool.kernel(_OWNER).stop


async def _cold() -> tuple[bool, Callable[[], Awaitable[object]]]:
    box = NamespaceSandbox()
    pool = KernelPool(box, PoolConfig(warm=0))

    async def end() -> None:
        await pool.aclose()
        await box.aclose()

    return (await run_in_pool(pool, _OWNER, _CELL)).success, end


async def _stock(
    start: Callable[[str, str], Awaitable[StartedKernel]], transport: str
) -> tuple[bool, Callable[[], Awaitable[object]]]:
    started = await start(STOCK, transport)
    return (await run_with_jupyter(started.client, _CELL)).success, started.end

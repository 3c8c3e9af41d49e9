"""Times round trips in kernels that are ready: small cells and large outputs."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

from bench.kernels.clients import BOXED, STOCK, CellOutcome, ready_kernel, run_in_pool, run_with_jupyter
from bench.timing import Series, measure
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import KernelOwner
from sandbox.namespace.backend import NamespaceSandbox

POOL = "knackbox: the pool"
PLAIN = "stock, ipc"
EMPTY = "pass"
SMALL = "print('x'); 6 * 7"
PRINTED, PNG = "10 MB printed", "5 MB PNG displayed"
_OWNER = KernelOwner("bench", "")
_SET_UP = (
    "import os\nfrom IPython.display import Image, display\n"
    "png = Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + os.urandom(5_000_000), format='png')\nline = 'x' * 99 + '\\n'"
)
_LARGE = {
    PRINTED: ("for _ in range(10_000): print(line * 10, end='')", 10_000_000),
    PNG: ("display(png)", 4 * 5_000_000 // 3),
}
_LARGE_TURNS = 4  # rounds of small cells for each round of large outputs
_PAUSE_S = 0.01

_Run = Callable[[str], Awaitable[CellOutcome]]


async def trips(rounds: int, tick: Callable[[], None]) -> list[Series]:
    """Return one series for each cell and candidate.

    Raises:
        RuntimeError: A cell failed, or outputs are missing.
    """
    async with AsyncExitStack() as stack:
        ways = await _ways(stack)
        for run in ways.values():
            await run(_SET_UP)
        found: list[Series] = []
        for title, code in (("empty cell", EMPTY), ("small cell", SMALL)):
            found += await measure(
                title, {name: partial(run, code) for name, run in ways.items()}, rounds, tick, pause_s=_PAUSE_S
            )
        for title, (code, least) in _LARGE.items():
            large = {name: partial(_check_length, run, code, least) for name, run in ways.items()}
            found += await measure(title, large, max(2, rounds // _LARGE_TURNS), tick, pause_s=_PAUSE_S)
        return found


async def _ways(stack: AsyncExitStack) -> dict[str, _Run]:
    box = await stack.enter_async_context(NamespaceSandbox())
    pool = await stack.enter_async_context(KernelPool(box, PoolConfig(warm=0)))
    ways: dict[str, _Run] = {POOL: partial(run_in_pool, pool, _OWNER)}
    for name, kernel, transport in (
        ("knackbox: jupyter_client", BOXED, "ipc"),
        (PLAIN, STOCK, "ipc"),
        ("stock, tcp", STOCK, "tcp"),
    ):
        ways[name] = partial(run_with_jupyter, await stack.enter_async_context(ready_kernel(kernel, transport)))
    return ways


async def _check_length(run: _Run, code: str, least: int) -> CellOutcome:
    """Run a cell, and count it as failed if its outputs are shorter than expected."""
    found = await run(code)
    return CellOutcome(found.success and found.characters >= least, found.characters)

"""Times single runs from code to result: waiting boxes, boxes forked on demand, and the peers."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.boxes.code import Code
from bench.boxes.kinds import kinds
from bench.peers import Peer, bubblewrap, docker_exec, docker_run, plain, sandlock
from bench.timing import Series, measure
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox

WARM = "knackbox: a box that waits"
ON_DEMAND = "knackbox: a box forked on demand"
_PAUSE_S = 0.03  # the pool of waiting boxes is full again after about 20 ms


async def latencies(
    codes: Sequence[Code], folder: Path, rounds: int, console: Console
) -> tuple[list[Series], list[Peer]]:
    """Return one series for each code and candidate, and the peers that are not available."""
    found: list[Series] = []
    absent: list[Peer] = []
    for code in codes:
        script = code.script(folder)
        with docker_exec(script) as started:
            peers = [plain(script), bubblewrap(script), sandlock(script), started, docker_run(script)]
            absent = [peer for peer in peers if peer.absent]
            ways = {peer.name: peer.run for peer in peers if not peer.absent}
            found += await _measure_code(code, ways, rounds, console)
    return found, absent


async def _measure_code(
    code: Code, peers: dict[str, Callable[[], Awaitable[bool]]], rounds: int, console: Console
) -> list[Series]:
    ways: dict[str, Callable[[], Awaitable[bool]]] = {}
    async with AsyncExitStack() as stack:
        for kind in kinds():
            for name, warm in ((WARM, 2), (ON_DEMAND, 0)):
                box = NamespaceSandbox(NamespaceConfig(warm=warm, native=kind.native))
                ways[name + kind.note] = partial(run_in, await stack.enter_async_context(box), code)
        ways |= peers
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(f"{code.title}, {len(ways)} ways", total=rounds)
            return await measure(code.title, ways, rounds, partial(progress.advance, task), pause_s=_PAUSE_S)


async def run_in(box: NamespaceSandbox, code: Code) -> bool:
    """Run the code in a box; return whether it produced a value."""
    outcome = await box.run(code.job())
    return outcome.ok and outcome.value is not None

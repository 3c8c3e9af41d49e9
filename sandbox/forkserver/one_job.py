"""Runs one job in one box, from its request to its end.

Whatever happens in between, the box is killed and waited for.
"""

import asyncio

from sandbox.contract import End, Outcome
from sandbox.forkserver.running import ForkedJob
from sandbox.forkserver.server import ForkedBox, ForkServer

_BACKSTOP_S = 5.0  # process 1 of the box enforces the wall clock; this applies when it cannot
_GONE_WAIT_S = 5.0
_REFILL_AFTER_S = 0.01  # a short job ends before the next box is forked, so the two do not compete for a core


async def run_to_end(
    server: ForkServer, box: ForkedBox, running: ForkedJob, asked: tuple[dict[str, object], bytes, int]
) -> Outcome:
    """Run the job and return its outcome. Raises SandboxError.

    Args:
        server: The template the box was forked from.
        box: The box.
        running: The job.
        asked: The header and the body of the request, and the descriptor of the workspace's mount, or -1.
    """
    finished = False
    refill = None
    try:
        await running.send(*asked)
        refill = asyncio.get_running_loop().call_later(_REFILL_AFTER_S, server.refill)
        async with asyncio.timeout(running.job.limits.wall_s + _BACKSTOP_S):
            outcome = await running.outcome()
        finished = True
    except TimeoutError:
        return Outcome(end=End.TIMEOUT)
    finally:
        if not finished:
            await _kill(server, box)
        running.close()
        if refill is not None:
            refill.cancel()
            asyncio.get_running_loop().call_soon(server.refill)  # whoever waits for the outcome goes first
    return outcome


async def _kill(server: ForkServer, box: ForkedBox) -> None:
    """Kill the box and wait until it is gone, even while this task is being cancelled."""
    server.kill(box)
    waiting = asyncio.ensure_future(asyncio.wait_for(box.gone.wait(), _GONE_WAIT_S))
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:  # the box has to be killed however often the task is cancelled
            continue
        except TimeoutError:
            server.abandon()
            break

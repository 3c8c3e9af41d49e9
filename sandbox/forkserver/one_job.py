"""One job in one box, from its request until it has ended; whatever comes between, the box is killed and seen gone."""

import asyncio

from sandbox.contract import End, Outcome
from sandbox.forkserver.running import RunningJob
from sandbox.forkserver.server import ForkedBox, ForkServer

_BACKSTOP_S = 5.0  # process 1 of the box keeps the wall clock; this is for the case that it cannot
_GONE_WAIT_S = 5.0
_REFILL_AFTER_S = 0.01  # a short job ends before the next box is forked, so that the two need not share a core


async def to_its_end(
    server: ForkServer, box: ForkedBox, running: RunningJob, asked: tuple[dict[str, object], bytes, int]
) -> Outcome:
    """asked: the request's header and body, and its workspace's mount or -1. Raises SandboxError."""
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
            asyncio.get_running_loop().call_soon(server.refill)  # first of all, whoever waits gets the outcome
    return outcome


async def _kill(server: ForkServer, box: ForkedBox) -> None:
    """Kill the box and see it gone, also while this task is being cancelled."""
    server.kill(box)
    waiting = asyncio.ensure_future(asyncio.wait_for(box.gone.wait(), _GONE_WAIT_S))
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:  # a second cancel does not make the box any less in need of killing
            continue
        except TimeoutError:
            server.abandon()
            break

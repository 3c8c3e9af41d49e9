"""`PlayLoop`: plays one cycle after the other in the background, until it is stopped (PLAY-3).

What stops it is written to the records, so every process of the home can stop it: `stop_self_play`, and any message of
a user. A message stops it at once, so that no user's run works with a change that is still on trial.
"""

import asyncio
import logging

from builtin_tools.self_play.changing import finished
from builtin_tools.self_play.cycles import Cycle, CycleState
from builtin_tools.self_play.self_play import SelfPlay
from builtin_tools.self_play.store import LoopRow, PlayBusy
from engine.contract.prompt_block import Placement
from engine.contract.turn import Turn

log = logging.getLogger("knackbox.self_play")

_POLL_S = 0.2  # how long it takes until a request to stop is noticed
_STOPPED_WITHIN_S = 5.0  # how long a message waits for the end of the loop
_PAUSE_S = 30.0  # after a cycle that found nothing to do, or failed
AFTER, NOW = "after", "now"


class PlayLoop:
    """The loop of this process, and requests to stop the loop of any process."""

    def __init__(self, play: SelfPlay, *, pause_s: float = _PAUSE_S) -> None:
        """Create the object.

        Args:
            play: Plays the cycles.
            pause_s: Seconds between a cycle that found no weakness, or was rolled back, and the next.
        """
        self._play = play
        self._store = play.store
        self._pause_s = pause_s
        self._task: asyncio.Task[str] | None = None

    async def begin(self, turn: Turn, max_cycles: int = 0, model: str = "") -> None:
        """Start the loop.

        Args:
            turn: The user and the rights of the cycles.
            max_cycles: After how many cycles it ends; 0 for no limit.
            model: As for `SelfPlay.play`.

        Raises:
            PlayBusy: A loop is running in this home.
        """
        lock = await asyncio.to_thread(self._play.lock)
        await finished(asyncio.to_thread(self._store.begin_loop, lock.id, turn.user, lock.is_running))
        self._task = asyncio.create_task(self._run(turn, max_cycles, model), name="self-play loop")

    async def ended(self) -> str:
        """Wait for the end of the loop of this process, and return why it ended."""
        return "" if self._task is None else await self._task

    async def stop(self, how: str, why: str) -> LoopRow | None:
        """Ask the loop of the home to stop.

        Args:
            how: `AFTER` its cycle, or `NOW`.
            why: A sentence for the report.

        Returns:
            The loop that was running; None if none was.
        """
        loop = await self.running()
        if loop is not None:
            await asyncio.to_thread(self._store.stop_loop, how, why)
        return loop

    async def until_stopped(self, within_s: float = _STOPPED_WITHIN_S) -> bool:
        """Wait until no loop is running. Return False if one still is."""
        try:
            async with asyncio.timeout(within_s):
                while await self.running() is not None:  # noqa: ASYNC110 -- another process may run it
                    await asyncio.sleep(_POLL_S / 4)
        except TimeoutError:
            return False
        return True

    async def running(self) -> LoopRow | None:
        """Return the loop that is running in some process; None if none is."""
        loop = await asyncio.to_thread(self._store.loop)
        if loop is None or not loop.running:
            return None
        lock = await asyncio.to_thread(self._play.lock)
        return loop if await asyncio.to_thread(lock.is_running, loop.owner) else None

    async def aclose(self) -> None:
        """Stop the loop of this process. A running cycle is rolled back."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self, turn: Turn, max_cycles: int, model: str) -> str:
        why = "Its process ended."
        try:
            why = await self._cycles(turn, max_cycles, model)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            log.exception("The self-play loop failed.")
        finally:
            await finished(asyncio.to_thread(self._store.end_loop, why))
        return why

    async def _cycles(self, turn: Turn, max_cycles: int, model: str) -> str:
        """Play cycles, and return why the loop ends."""
        played = 0
        while True:
            cycle = await self._one(turn, model)
            if cycle is not None:
                played += 1
                await finished(asyncio.to_thread(self._store.count_cycle))
            loop = await asyncio.to_thread(self._store.loop)
            if loop is not None and loop.stop:
                return loop.why
            if max_cycles and played >= max_cycles:
                return f"It has played {played} cycles."
            if (cycle is None or cycle.weakness is None) and (stopped := await self._pause()):
                return stopped

    async def _one(self, turn: Turn, model: str) -> Cycle | None:
        """Play one cycle. If the loop must stop at once, stop the cycle. Return None if another one is running."""
        task = asyncio.create_task(self._play.play(turn, model))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_POLL_S)
                loop = await asyncio.to_thread(self._store.loop)
                if loop is not None and loop.stop == NOW and not task.done():
                    break
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        try:
            return task.result()
        except (PlayBusy, asyncio.CancelledError):
            return None

    async def _pause(self) -> str:
        """Wait before the next cycle. Return why the loop must stop; "" if it continues."""
        loop, until = asyncio.get_running_loop(), asyncio.get_running_loop().time() + self._pause_s
        while loop.time() < until:
            row = await asyncio.to_thread(self._store.loop)
            if row is not None and row.stop:
                return row.why
            await asyncio.sleep(_POLL_S)
        return ""


class StopAtMessages:
    """A prompt block that adds nothing. It notices the messages of users, and stops the loop."""

    name = "self_play"
    placement: Placement = "message"
    most_characters = 1

    def __init__(self, loop: PlayLoop) -> None:
        self._loop = loop

    async def text(self, turn: Turn, message: str) -> str:
        """Stop the loop if this is not a message of self-play itself. Wait until its cycle is rolled back."""
        del message
        if not turn.trial and await self._loop.stop(NOW, "A user sent a message.") is not None:
            await self._loop.until_stopped()
        return ""


def outcome(cycle: Cycle) -> str:
    """Return a line that says how a cycle ended."""
    said = {
        CycleState.RUNNING: "is running",
        CycleState.KEPT: "kept",
        CycleState.NOTHING: "kept nothing",
        CycleState.ROLLED_BACK: "rolled back",
        CycleState.UNDOING: "is being undone",
        CycleState.UNDONE: "was undone",
    }[cycle.state]
    change = cycle.change
    what = f" the {change.kind} {change.what}" if change is not None and cycle.state is CycleState.KEPT else ""
    return f"Cycle {cycle.number} {said}{what}. {cycle.why}".strip()

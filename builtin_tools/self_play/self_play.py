"""`SelfPlay`: plays cycles one after the other, undoes them, and finishes what killed processes left behind."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

from builtin_tools.self_play.attempts import BudgetUsedUp, PlayLimits
from builtin_tools.self_play.changing import ChangedSince, finished
from builtin_tools.self_play.cycle_run import CycleRun, PlayParts, Progress
from builtin_tools.self_play.cycles import Cycle, CycleState
from builtin_tools.self_play.requests import UnusableAnswer
from builtin_tools.self_play.store import PlayBusy, PlayStore
from engine.contract.context import no_progress
from engine.contract.failure import ConfigError
from engine.contract.turn import Turn
from engine.stores.engine_lock import EngineLock
from sandbox.contract import SandboxError

log = logging.getLogger("knackbox.self_play")


class SelfPlay:
    """Plays one cycle at a time in a home, and undoes cycles."""

    def __init__(
        self, store: PlayStore, locks: Path, limits: PlayLimits | None = None, *, most_held_out: int = 40
    ) -> None:
        """Create the object. `start` must be called before anything else.

        Args:
            store: The cycles.
            locks: The folder with the lock files of processes that play.
            limits: The limits of a cycle.
            most_held_out: How many held-out tasks a user may have. The oldest are dropped.
        """
        self.store = store
        self._locks = locks
        self._limits = limits or PlayLimits()
        self._most_held_out = most_held_out
        self._parts: PlayParts | None = None
        self._lock: EngineLock | None = None
        self._busy = asyncio.Lock()

    async def start(self, parts: PlayParts) -> None:
        """Take the parts of the open engine, and finish what killed processes left behind."""
        self._parts = parts
        try:
            await self._reconcile()
        except Exception as error:  # noqa: BLE001 -- the engine must open; the next cycle tries again
            log.warning("An interrupted cycle of self-play could not be rolled back; this is tried again: %s", error)

    def close(self) -> None:
        """Release the lock file of this process."""
        if self._lock is not None:
            self._lock.close()

    def lock(self) -> EngineLock:
        """Return the lock by which other processes see that this one runs. The first call blocks."""
        if self._lock is None:
            self._lock = EngineLock(self._locks)
        return self._lock

    @property
    def parts(self) -> PlayParts:
        if self._parts is None:
            raise RuntimeError("start was not called")
        return self._parts

    async def play(self, turn: Turn, model: str = "", progress: Progress = no_progress) -> Cycle:
        """Play one cycle. Its failures are results. If this is cancelled, the cycle is rolled back first.

        Args:
            turn: The user, and the rights that no attempt exceeds.
            model: The name of another model of the configured provider; "" for the configured one.
            progress: Called with what happens and the fraction that is done.

        Raises:
            PlayBusy: Another cycle is running in this home.
        """
        if self._busy.locked():
            raise PlayBusy("A cycle is running. Wait for its end, or stop it with stop_self_play.")
        async with self._busy:
            await self._reconcile()
            lock = await asyncio.to_thread(self.lock)
            cycle = await finished(asyncio.to_thread(self.store.begin, lock.id, turn.user, model))
            run = CycleRun(self.store, self.parts, cycle, turn, limits=self._limits, progress=progress)
            try:
                async with asyncio.timeout(self._limits.wall_s):
                    return await run.to_the_end()
            except TimeoutError:
                return await run.roll_back(f"The cycle took longer than {self._limits.wall_s:g} s.")
            except (BudgetUsedUp, UnusableAnswer, ConfigError, SandboxError) as error:
                return await run.roll_back(str(error))
            except asyncio.CancelledError:
                await run.roll_back("It was stopped.")
                raise
            except Exception as error:
                await run.roll_back(f"{type(error).__name__}: {error}")
                raise
            finally:
                await asyncio.to_thread(self.store.drop_tasks, turn.user, self._most_held_out)

    async def undo(self, number: int) -> Cycle:
        """Take back everything that a cycle did.

        Raises:
            UnknownCycle: There is no such cycle.
            PlayBusy: A cycle is running.
            ChangedSince: Somebody has changed the same skill or lesson since. Nothing is changed.
        """
        async with self._busy:
            await self._reconcile()
            cycle = await asyncio.to_thread(self.store.one, number)
            if await asyncio.to_thread(self.store.unfinished):
                raise PlayBusy("A cycle is running. Stop it with stop_self_play first.")
            if cycle.state is CycleState.UNDONE:
                return cycle
            lock = await asyncio.to_thread(self.lock)
            return await self._undo(replace(cycle, owner=lock.id), cycle)

    async def undo_all(self) -> list[Cycle]:
        """Undo all cycles, newest first.

        Raises:
            PlayBusy, ChangedSince: As for `undo`. Newer cycles are undone then.
        """
        every = await asyncio.to_thread(self.store.cycles)
        return [await self.undo(each.number) for each in every if each.state is not CycleState.UNDONE]

    async def _undo(self, cycle: Cycle, was: Cycle) -> Cycle:
        undoing = await finished(asyncio.to_thread(self.store.save, replace(cycle, state=CycleState.UNDOING)))
        if was.state is not CycleState.ROLLED_BACK:
            try:
                await self.parts.changing.take_back(undoing)
            except ChangedSince:
                await finished(asyncio.to_thread(self.store.save, was))
                raise
        return await finished(asyncio.to_thread(self.store.undone, replace(undoing, state=CycleState.UNDONE)))

    async def _reconcile(self) -> None:
        """Roll back the cycles whose processes have ended, and finish the undoing of others."""
        for cycle in await asyncio.to_thread(self.store.unfinished):
            lock = await asyncio.to_thread(self.lock)
            if cycle.owner != lock.id and await asyncio.to_thread(lock.is_running, cycle.owner):
                continue
            try:
                await self.parts.changing.take_back(cycle)
                why = "Its process ended before the cycle did."
            except ChangedSince as error:
                why = f"Its process ended before the cycle did, and its change could not be taken back: {error}"
                log.warning("The self-play cycle %s: %s", cycle.number, why)
                if cycle.state is CycleState.UNDOING:
                    await asyncio.to_thread(self.store.save, replace(cycle, state=CycleState.KEPT))
                    continue
            if cycle.state is CycleState.UNDOING:
                await asyncio.to_thread(self.store.undone, replace(cycle, state=CycleState.UNDONE))
            else:
                ended = replace(cycle, state=CycleState.ROLLED_BACK, why=why, solved=False)
                await asyncio.to_thread(self.store.end, ended, {})

"""`SelfPlay`: plays cycles, and undoes them.

A cycle picks a weakness, lets the model state a task with checks, attempts it, lets the model propose a change, and
attempts again with the change. The change is kept if both exercises of the task are solved with it and no held-out task
becomes worse. Everything else is taken back.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from acquired_skills.lifecycle.library import SkillLibrary
from builtin_tools.memory.lessons.lesson_book import LessonBook
from builtin_tools.self_play.attempts import BudgetUsedUp, PlayAttempts, PlayLimits
from builtin_tools.self_play.changing import ChangedSince, ChangeRefused, Changing, finished
from builtin_tools.self_play.checks import UnusableCheck, validate
from builtin_tools.self_play.cycles import Cycle, CycleState, HeldOutResult, PracticeTask, Weakness
from builtin_tools.self_play.requests import (
    FailedAttempt,
    UnusableAnswer,
    change_request,
    read_change,
    read_task,
    task_request,
)
from builtin_tools.self_play.store import PlayBusy, PlayStore
from builtin_tools.self_play.weaknesses import choose, weaknesses
from engine.contract.background import BackgroundHost
from engine.contract.context import no_progress
from engine.contract.failure import ConfigError
from engine.contract.turn import Turn
from engine.stores.call_views import AuditView
from engine.stores.engine_lock import EngineLock
from sandbox.contract import Sandbox, SandboxError

log = logging.getLogger("knackbox.self_play")

Progress = Callable[..., None]


@dataclass(frozen=True, slots=True)
class PlayParts:
    """What self-play uses of the engine and of other packs."""

    host: BackgroundHost
    library: SkillLibrary
    book: LessonBook
    audit: AuditView
    sandbox: Sandbox


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
            run = CycleRun(self, cycle, turn, self._limits, progress)
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
                await self.changing.take_back(undoing)
            except ChangedSince:
                await finished(asyncio.to_thread(self.store.save, was))
                raise
        return await finished(asyncio.to_thread(self.store.undone, replace(undoing, state=CycleState.UNDONE)))

    @property
    def changing(self) -> Changing:
        """Makes and takes back changes."""
        return Changing(self.parts.library, self.parts.book)

    async def _reconcile(self) -> None:
        """Roll back the cycles whose processes have ended, and finish the undoing of others."""
        for cycle in await asyncio.to_thread(self.store.unfinished):
            lock = await asyncio.to_thread(self.lock)
            if cycle.owner != lock.id and await asyncio.to_thread(lock.is_running, cycle.owner):
                continue
            try:
                await self.changing.take_back(cycle)
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


class CycleRun:
    """One running cycle."""

    def __init__(self, play: SelfPlay, cycle: Cycle, turn: Turn, limits: PlayLimits, progress: Progress) -> None:
        self._play = play
        self._store = play.store
        self._parts = play.parts
        self._cycle = cycle
        self._progress = progress
        self._attempts = PlayAttempts(self._parts.host, self._parts.sandbox, turn, cycle.model, limits)
        self._results: dict[int, bool | None] = {}
        self._ended = False

    async def to_the_end(self) -> Cycle:
        """Play the cycle.

        Raises:
            BudgetUsedUp, UnusableAnswer, ConfigError, SandboxError: The cycle must be rolled back.
        """
        weakness = await self._choose()
        if weakness is None:
            return await self._end(CycleState.NOTHING, "The record shows no weakness.")
        task = await self._state_task(weakness)
        if task is None:
            return await self._end(CycleState.NOTHING, self._cycle.why)
        self._progress("attempting the task", 0.2)
        failed = await self._attempt(weakness, task)
        if failed is None:
            self._cycle = replace(self._cycle, solved=True)
            return await self._end(CycleState.NOTHING, "The task is solved already.")
        return await self._improve(task, failed)

    async def roll_back(self, why: str) -> Cycle:
        """Take back the change, if there is one, and end the cycle, unless it has ended."""
        if self._ended:
            return self._cycle
        try:
            await self._play.changing.take_back(self._cycle)
        except ChangedSince as error:
            why = f"{why} Its change could not be taken back: {error}"
            log.warning("The self-play cycle %s: %s", self._cycle.number, why)
        self._cycle = replace(self._cycle, solved=False)
        return await self._end(CycleState.ROLLED_BACK, why)

    async def _choose(self) -> Weakness | None:
        """Choose a weakness, and record it."""
        parts = self._parts
        found = await weaknesses(self._cycle.user, parts.audit, parts.book, parts.library)
        weakness = choose(found, await asyncio.to_thread(self._store.tries))
        await self._save(replace(self._cycle, weakness=weakness))
        return weakness

    async def _state_task(self, weakness: Weakness) -> PracticeTask | None:
        """Let the model state a task whose checks are usable. If it cannot, record why and return None."""
        self._progress("stating a task", 0.05)
        task = await self._attempts.ask(task_request(weakness), read_task)
        try:
            for exercise in (task.practice, task.exam):
                await validate(self._parts.sandbox, exercise)
        except UnusableCheck as error:
            await self._save(replace(self._cycle, why=f"The task could not be used. {error}"))
            return None
        await self._save(replace(self._cycle, task=task))
        return task

    async def _attempt(self, weakness: Weakness, task: PracticeTask) -> FailedAttempt | None:
        """Attempt the task. Return what failed, and None if both exercises are solved.

        If only the exam fails, its answer is not returned, because the author of the change must not see the exam.
        """
        solved, answer = await self._attempts.attempt(task.practice)
        if solved:
            if (await self._attempts.attempt(task.exam))[0]:
                return None
            answer = "(This answer was right, but that to another question of the kind was wrong.)"
        return FailedAttempt(weakness, task.practice, answer)

    async def _improve(self, task: PracticeTask, failed: FailedAttempt) -> Cycle:
        """Let the model propose a change, make it, and keep it if it helps and harms nothing."""
        tasks = await asyncio.to_thread(self._store.tasks, self._cycle.user)
        unknown = [each for each in tasks if each.solved is None]
        self._results |= await self._attempts.attempt_all(unknown)
        before = {each.cycle: each.solved if each.solved is not None else self._results[each.cycle] for each in tasks}
        self._progress("proposing a change", 0.4)
        proposed = await self._attempts.ask(change_request(failed), read_change)
        if proposed.kind == "nothing":
            return await self._end(CycleState.NOTHING, f"The model proposed no change. {proposed.why}".strip())
        try:
            self._cycle = await self._play.changing.make(self._cycle, proposed, self._save)
        except ChangeRefused as refused:
            return await self.roll_back(f"The change was refused: {refused}")
        if self._cycle.change is not None and self._cycle.change.merged:
            return await self._end(CycleState.KEPT, "The lesson was merged with a known one.")
        self._progress("attempting the task with the change", 0.6)
        for exercise in (task.practice, task.exam):
            if not (await self._attempts.attempt(exercise))[0]:
                return await self.roll_back("The change does not solve the task.")
        self._progress("comparing held-out tasks", 0.7)
        after = await self._attempts.attempt_all(tasks)
        worse = tuple(number for number, solved in after.items() if before[number] and not solved)
        compared = HeldOutResult(len(tasks), sum(map(bool, before.values())), sum(after.values()), worse)
        self._cycle = replace(self._cycle, held_out=compared)
        if worse:
            # They may fail for another reason, so they are attempted without the change before the next one.
            self._results |= dict.fromkeys(worse)
            named = ", ".join(map(str, worse))
            return await self.roll_back(f"The held-out tasks of these cycles become worse with it: {named}.")
        self._results |= after
        self._cycle = replace(self._cycle, solved=True)
        return await self._end(CycleState.KEPT, "The change solves the task, and no held-out task became worse.")

    async def _save(self, cycle: Cycle) -> Cycle:
        self._cycle = replace(cycle, tokens=self._attempts.tokens)
        return await finished(asyncio.to_thread(self._store.save, self._cycle))

    async def _end(self, state: CycleState, why: str) -> Cycle:
        """Record the end of the cycle."""
        ended = replace(self._cycle, state=state, why=why, tokens=self._attempts.tokens)
        writing = asyncio.to_thread(self._store.end, ended, self._results)
        self._cycle, self._ended = ended, True
        self._cycle = await finished(writing)
        return self._cycle

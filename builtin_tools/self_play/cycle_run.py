"""`CycleRun`: plays one cycle of self-play.

A cycle picks a weakness, lets the model state a task with checks, attempts it, lets the model propose a change, and
attempts again with the change. The change is kept if both exercises of the task are solved with it and no held-out task
becomes worse. Everything else is taken back.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from acquired_skills.lifecycle.library import SkillLibrary
from builtin_tools.memory.lessons.lesson_book import LessonBook
from builtin_tools.self_play.attempts import PlayAttempts, PlayLimits
from builtin_tools.self_play.changing import ChangedSince, ChangeRefused, Changing, finished
from builtin_tools.self_play.checks import UnusableCheck, validate
from builtin_tools.self_play.cycles import Cycle, CycleState, HeldOutResult, PracticeTask, Weakness
from builtin_tools.self_play.requests import FailedAttempt, change_request, read_change, read_task, task_request
from builtin_tools.self_play.store import PlayStore
from builtin_tools.self_play.weaknesses import choose, weaknesses
from engine.contract.background import BackgroundHost
from engine.contract.turn import Turn
from engine.stores.call_views import AuditView
from sandbox.contract import Sandbox

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

    @property
    def changing(self) -> Changing:
        """Makes changes of skills and lessons, and takes them back."""
        return Changing(self.library, self.book)


class CycleRun:
    """One running cycle."""

    def __init__(
        self, store: PlayStore, parts: PlayParts, cycle: Cycle, turn: Turn, *, limits: PlayLimits, progress: Progress
    ) -> None:
        self._store = store
        self._parts = parts
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
            await self._parts.changing.take_back(self._cycle)
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
            self._cycle = await self._parts.changing.make(self._cycle, proposed, self._save)
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

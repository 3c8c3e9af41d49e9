"""Makes the change of a cycle, and takes it back.

What is needed to take a change back is recorded before the change is made, so a killed process leaves nothing that
cannot be undone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.model.skill import Skill, SkillError
from builtin_tools.memory.entries import Entry, EntrySource, SourceKind
from builtin_tools.memory.lessons.lesson import LessonOrigin, NewLesson
from builtin_tools.memory.lessons.lesson_book import LESSONS, MOST_LESSONS, LessonBook, LessonReplaced
from builtin_tools.memory.scope import owner_of_user
from builtin_tools.memory.tables import entry_of, row_of
from builtin_tools.self_play.cycles import AGENT, Cycle, CycleChange, PlayChangeKind, call_of
from builtin_tools.self_play.requests import ProposedChange
from engine.contract.failure import ToolFailure

T = TypeVar("T")
Save = Callable[[Cycle], Awaitable[Cycle]]
_SAVING = 0.9  # the progress of an admission from which on the skill is being written


class ChangeRefused(Exception):
    """A proposed change was not made. The message says why."""


class ChangedSince(Exception):
    """A change cannot be taken back, because somebody has changed the same thing since."""


class Changing:
    """Makes and takes back the changes of cycles."""

    def __init__(self, library: SkillLibrary, book: LessonBook) -> None:
        self._library = library
        self._book = book

    async def make(self, cycle: Cycle, proposed: ProposedChange, save: Save) -> Cycle:
        """Make a proposed change.

        Args:
            cycle: The cycle that makes it.
            proposed: A skill or a lesson.
            save: Stores the cycle before and after the change.

        Returns:
            The cycle with its change.

        Raises:
            ChangeRefused: Nothing was changed.
            SandboxError: No box can run.
        """
        if proposed.kind == "skill":
            return await self._create_skill(cycle, proposed, save)
        return await self._learn(cycle, proposed, save)

    async def take_back(self, cycle: Cycle) -> None:
        """Take back the change of a cycle, if it was made and has not been taken back yet.

        Raises:
            ChangedSince: Somebody has changed the same skill or lesson since.
        """
        change = cycle.change
        if change is None:
            return
        try:
            if change.kind is PlayChangeKind.SKILL:
                await finished(self._library.withdraw(change.what, call_of(cycle.number)))
            else:
                before = {key: _entry(row) for key, row in change.before.items()}
                call = call_of(cycle.number)
                await finished(asyncio.to_thread(self._book.take_back, change.owner, LESSONS, call, before))
        except LessonReplaced as error:
            raise ChangedSince(f"{error}.") from error
        except SkillError as error:
            raise ChangedSince(str(error)) from error

    async def _create_skill(self, cycle: Cycle, proposed: ProposedChange, save: Save) -> Cycle:
        provenance = {"by": "self_play", "user": cycle.user, "agent": AGENT, "call": call_of(cycle.number)}
        proposal = Proposal(
            proposed.name,
            proposed.description,
            proposed.code,
            proposed.tests,
            proposed.examples,
            provenance=provenance,
            reference=proposed.reference,
        )
        cycle = await save(replace(cycle, change=CycleChange(PlayChangeKind.SKILL, proposed.name)))
        try:
            skill = await self._admit(proposal)
        except SkillRefused as refused:
            raise ChangeRefused(str(refused)) from refused
        except (SkillError, ToolFailure) as error:
            raise ChangeRefused(str(error)) from error
        return await save(replace(cycle, change=CycleChange(PlayChangeKind.SKILL, skill.name, skill.version)))

    async def _admit(self, proposal: Proposal) -> Skill:
        """Admit a skill. If this is cancelled while the skill is being written, wait until it is written."""
        reached = [0.0]

        def progress(message: str, fraction: float | None = None) -> None:
            del message
            reached[0] = fraction or reached[0]

        task = asyncio.ensure_future(self._library.create(proposal, progress, agent=AGENT))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if reached[0] < _SAVING:
                task.cancel()
            await asyncio.wait({task})
            raise

    async def _learn(self, cycle: Cycle, proposed: ProposedChange, save: Save) -> Cycle:
        owner, call = owner_of_user(cycle.user), call_of(cycle.number)
        before = await asyncio.to_thread(self._book.entries, owner, LESSONS)
        if len(before) >= MOST_LESSONS:
            raise ChangeRefused(f"There are {MOST_LESSONS} lessons already, so a new one would displace another.")
        place = proposed.where.strip()
        new = NewLesson(
            mistake=" ".join(proposed.mistake.split()),
            fix=" ".join(proposed.fix.split()),
            where=place,
            tool=place if place.isidentifier() else "",
            evidence=(call,),
            origin=LessonOrigin.SELF_PLAY,
        )
        rows = {key: row_of(entry) for key, entry in before.items()}
        change = CycleChange(PlayChangeKind.LESSON, new.text, owner=owner, before=rows)
        cycle = await save(replace(cycle, change=change))
        source = EntrySource(SourceKind.TOOL, user=cycle.user, agent=AGENT, call_id=call)
        await finished(asyncio.to_thread(self._book.learn, owner, LESSONS, new, source))
        touched = await asyncio.to_thread(self._book.touched, owner, LESSONS, call)
        kept = {key: rows[key] for key in touched if key in rows}
        return await save(replace(cycle, change=replace(change, before=kept, merged=len(kept) == len(touched))))


async def finished(work: Awaitable[T]) -> T:
    """Await a short piece of work. If this is cancelled, wait for the end of the work, and then raise."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _entry(row: Mapping[str, Any]) -> Entry:
    return entry_of(SimpleNamespace(**row))

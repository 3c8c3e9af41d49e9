"""`LessonsBlock`: adds to the prompt the lessons that fit a message, and counts how often they are followed and help
(MEM-7).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

from builtin_tools.memory.entries import EntryKind, EntrySource, SourceKind
from builtin_tools.memory.indexing import MemoryIndexes
from builtin_tools.memory.lessons.lesson import Lesson, NewLesson
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.store import MemoryStore
from engine.contract.failure import FailureClass
from engine.contract.prompt_block import Placement
from engine.contract.run_summary import RunCall, RunSummary
from engine.contract.spaces import sees
from engine.contract.turn import Turn
from engine.retrieval.passage import FoundPassage, PassageFilter

MOST_SHOWN = 3
# Minimum fit of a lesson. A message does not ask for lessons, so fits are low: in trials, lessons that apply
# had fits between .05 and .25, and other lessons at most .02.
FITS = 0.03
MOST_CHARACTERS = 1_500
_MOST_WAITING = 256  # maximum runs that have begun and not ended
_CANDIDATES = 12
_HEADING = "Lessons from earlier runs. Follow those that apply:"
_REPEATED = 2  # number of equal DIAGNOSTIC failures in one run that make a draft
_OWN_FAULTS = frozenset({"budget", "skipped", "cancelled", "unknown_tool"})  # reasons that teach nothing about a tool

_Run = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ShownLessons:
    """The lessons in the prompt of one run.

    Attributes:
        owner: The owner of the lessons.
    """

    owner: str
    lessons: tuple[Lesson, ...]


class LessonsBlock:
    """A prompt block with lessons. It also observes how the runs with these lessons end."""

    name = "lessons"
    placement: Placement = "message"
    most_characters = MOST_CHARACTERS + len(_HEADING) + 1

    def __init__(self, book: LessonBook, store: MemoryStore, indexes: MemoryIndexes) -> None:
        self._book = book
        self._store = store
        self._indexes = indexes
        self._waiting: OrderedDict[_Run, ShownLessons] = OrderedDict()

    async def text(self, turn: Turn, message: str) -> str:
        """Return the lessons that fit a message, at most `MOST_SHOWN`; "" if none fits."""
        scope = MemoryScope.of(turn)
        if not message.strip() or not sees(scope.globs, LESSONS):
            return ""
        chosen = await asyncio.to_thread(self._fitting, scope.personal_owner, message)
        if not chosen:
            return ""
        if not turn.trial:
            self._wait_for(turn, message, ShownLessons(scope.personal_owner, tuple(chosen)))
        return "\n".join([_HEADING, *(f"- {lesson.what.text}" for lesson in chosen)])

    def _wait_for(self, turn: Turn, message: str, shown: ShownLessons) -> None:
        """Remember the lessons of a run until it ends."""
        self._waiting[turn.agent_key, message] = shown
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.popitem(last=False)

    async def run_ended(self, turn: Turn, summary: RunSummary) -> None:
        """Count which of the lessons shown in the run were followed and helped, and store the run's failures as
        drafts.
        """
        if turn.trial:
            return
        shown = self._waiting.pop((turn.agent_key, summary.message), None)
        scope = MemoryScope.of(turn)
        drafts = drafts_of(summary.calls) if sees(scope.globs, LESSONS) else []
        if shown is not None or drafts:
            await asyncio.to_thread(self._record, scope, shown, summary, drafts)

    def _record(
        self, scope: MemoryScope, shown: ShownLessons | None, summary: RunSummary, drafts: list[NewLesson]
    ) -> None:
        if shown is not None:
            followed = [each.id for each in shown.lessons if was_followed(each, summary.calls)]
            helped = followed if summary.answered else []
            ids = [each.id for each in shown.lessons]
            self._book.count(shown.owner, shown=ids, followed=followed, helped=helped)
        source = EntrySource(SourceKind.CONSOLIDATION, user=scope.user, agent=scope.agent)
        for draft in drafts:
            self._book.draft(scope.personal_owner, LESSONS, draft, source)

    def _fitting(self, owner: str, message: str) -> list[Lesson]:
        with self._store.reading() as memory:
            if LESSONS not in memory.spaces(owner):
                return []
        where = PassageFilter(kinds={EntryKind.LESSON.value}, spaces={LESSONS})
        found = self._indexes.search(owner, message, _CANDIDATES, where)
        lessons = self._book.get(owner, [each.id for each in found])
        return chosen_of(found, lessons.values())


def chosen_of(found: list[FoundPassage], lessons: Collection[Lesson]) -> list[Lesson]:
    """Return the lessons to show, best first: those that fit and have not faded, as far as the block has room."""
    fits = {each.id: each.fit for each in found if each.fit >= FITS}
    usable = [each for each in lessons if each.id in fits and not each.draft and not each.faded]
    ranked = sorted(usable, key=lambda each: (-fits[each.id] * each.worth, each.id))
    chosen: list[Lesson] = []
    left = MOST_CHARACTERS
    for lesson in ranked[:MOST_SHOWN]:
        left -= len(lesson.what.text) + 3
        if left >= 0:
            chosen.append(lesson)
    return chosen


def was_followed(lesson: Lesson, calls: Collection[RunCall]) -> bool:
    """Return whether a run followed a lesson, judging by the calls of the run.

    A lesson about a tool was followed if the tool was called and no call failed for the lesson's reason. Any other
    lesson was followed if no call had a FATAL or DIAGNOSTIC failure.
    """
    if lesson.what.tool:
        own = [call for call in calls if call.tool == lesson.what.tool]
        wrong = [call for call in own if not call.success and lesson.what.reason in ("", call.reason)]
        return bool(own) and not wrong
    return not any(call.failure_class in {FailureClass.FATAL, FailureClass.DIAGNOSTIC} for call in calls)


def drafts_of(calls: Collection[RunCall]) -> list[NewLesson]:
    """Return a draft of a lesson for each tool and reason with a FATAL failure or repeated DIAGNOSTIC failures."""
    failures: dict[tuple[str, str], list[RunCall]] = {}
    for call in calls:
        if call.failure_class in {FailureClass.FATAL, FailureClass.DIAGNOSTIC} and call.reason not in _OWN_FAULTS:
            failures.setdefault((call.tool, call.reason), []).append(call)
    drafts = []
    for (tool, reason), failed in failures.items():
        fatal = any(call.failure_class is FailureClass.FATAL for call in failed)
        if fatal or len(failed) >= _REPEATED:
            times = "once" if len(failed) == 1 else f"{len(failed)} times in one run"
            text = f"`{tool}` failed {times} ({reason})."
            evidence = tuple(call.call_id for call in failed)
            drafts.append(NewLesson(text, "", where=tool, tool=tool, reason=reason, evidence=evidence))
    return drafts

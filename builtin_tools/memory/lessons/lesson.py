"""`Lesson`: a mistake and its fix, with evidence and counts of how often it was shown, followed and helpful."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from builtin_tools.memory.entries import Entry

MOST_EVIDENCE = 20  # maximum number of call ids
_PRIOR_HELPED, _PRIOR_SHOWN = 1, 2  # with these, `worth` of a new lesson is 1/2
_FADED = 0.1  # `worth` falls below this when a lesson was shown 9 times and never helped


class LessonOrigin(StrEnum):
    """The activity in which a lesson was learned."""

    RUN = "run"
    SELF_PLAY = "self_play"


@dataclass(frozen=True, slots=True)
class NewLesson:
    """A lesson to be stored.

    Attributes:
        where: When the lesson applies: a tool, a kind of task, a place; "" for always.
        tool: The tool that `where` names; "" if it names no tool.
        reason: The `Failure.reason` of the mistake; "" if unknown.
        evidence: Ids of calls that show the mistake.
    """

    mistake: str
    fix: str
    where: str = ""
    tool: str = ""
    reason: str = ""
    evidence: tuple[str, ...] = ()
    origin: LessonOrigin = LessonOrigin.RUN

    @property
    def text(self) -> str:
        """The text that is searched and shown."""
        place = f" ({self.where})" if self.where else ""
        return f"Mistake{place}: {self.mistake} Fix: {self.fix}" if self.fix else f"Failure{place}: {self.mistake}"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A stored lesson.

    Attributes:
        draft: Whether the lesson is a draft: a record of failures without a known fix.
        count: How many times the lesson was learned.
        shown: In how many runs it was in the prompt.
        followed: In how many of these runs it was followed (see `was_followed`).
        helped: How many of the runs that followed it ended with an answer.
        learned, updated: When it was first and last learned, in seconds since the epoch.
    """

    id: str
    what: NewLesson
    draft: bool = False
    count: int = 1
    shown: int = 0
    followed: int = 0
    helped: int = 0
    learned: float = 0.0
    updated: float = 0.0

    @property
    def worth(self) -> float:
        """The estimated share of runs in which the lesson helps, from 0 to 1, by Laplace's rule of succession."""
        return (self.helped + _PRIOR_HELPED) / (self.shown + _PRIOR_SHOWN)

    @property
    def faded(self) -> bool:
        """Whether the lesson was shown so often without helping that it is no longer shown."""
        return self.worth < _FADED

    def again(self, new: NewLesson, now: float) -> "Lesson":
        """Return this lesson with its count raised by one and the new evidence added."""
        evidence = tuple(dict.fromkeys((*new.evidence, *self.what.evidence)))[:MOST_EVIDENCE]
        return replace(self, what=replace(self.what, evidence=evidence), count=self.count + 1, updated=now)

    def data(self) -> dict[str, Any]:
        """Return the JSON values that the lesson's entry stores as `Entry.data`."""
        what = self.what
        return {
            "mistake": what.mistake,
            "fix": what.fix,
            "where": what.where,
            "tool": what.tool,
            "reason": what.reason,
            "evidence": list(what.evidence),
            "origin": what.origin.value,
            "draft": self.draft,
            "count": self.count,
            "shown": self.shown,
            "followed": self.followed,
            "helped": self.helped,
            "updated": self.updated,
        }


def lesson_of(entry: Entry) -> Lesson:
    """Convert an entry to the lesson that it stores."""
    data: Mapping[str, Any] = entry.data
    what = NewLesson(
        mistake=data["mistake"],
        fix=data["fix"],
        where=data.get("where", ""),
        tool=data.get("tool", ""),
        reason=data.get("reason", ""),
        evidence=tuple(data.get("evidence", ())),
        origin=LessonOrigin(data.get("origin", LessonOrigin.RUN)),
    )
    return Lesson(
        entry.id,
        what,
        draft=bool(data.get("draft", False)),
        count=int(data.get("count", 1)),
        shown=int(data.get("shown", 0)),
        followed=int(data.get("followed", 0)),
        helped=int(data.get("helped", 0)),
        learned=entry.learned,
        updated=float(data.get("updated", entry.learned)),
    )

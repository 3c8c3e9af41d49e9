"""The data of self-play: weaknesses, practice tasks, changes and cycles."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

AGENT = "self-play"  # the agent of all runs of self-play; its calls are no weaknesses


def call_of(number: int) -> str:
    """Return the call id that marks what a cycle stored."""
    return f"self-play:{number}"


class WeaknessKind(StrEnum):
    """The part of the record that shows a weakness."""

    FAILED_CALL = "failed_call"
    LESSON = "lesson"  # a draft, or a lesson that did not help
    QUARANTINED_SKILL = "quarantined_skill"
    SLOW_SKILL = "slow_skill"


@dataclass(frozen=True, slots=True)
class Weakness:
    """Something that goes wrong, for the model to practise.

    Attributes:
        key: Identifies the weakness from cycle to cycle, such as ``failed_call:execute:timeout``.
        text: What the record says, for the model.
        times: How often it happened.
    """

    kind: WeaknessKind
    key: str
    text: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question with the code that judges an answer.

    Attributes:
        question: The message to the loop.
        check: Python source with a function ``check(answer: str) -> bool``.
        answer: An answer that the check accepts. It is only used to test the check, and never shown.
    """

    question: str
    check: str
    answer: str


@dataclass(frozen=True, slots=True)
class PracticeTask:
    """A task of one cycle: two exercises of the same kind.

    Attributes:
        practice: The exercise that the author of the change sees.
        exam: An exercise that it does not see. It stays as a held-out task.
    """

    practice: Exercise
    exam: Exercise


class PlayChangeKind(StrEnum):
    """What a cycle can change."""

    SKILL = "skill"
    LESSON = "lesson"


@dataclass(frozen=True, slots=True)
class CycleChange:
    """What a cycle changes. It is recorded before the change is made.

    Attributes:
        what: The name of the skill, or the text of the lesson.
        version: The version of the skill; 0 for a lesson.
        owner: The owner of the lesson; "" for a skill.
        merged: Whether a lesson only raised the count of a known one, whose text stays the same.
        before: The stored lessons before the change, by id, as rows. After the change, only those that it affected.
    """

    kind: PlayChangeKind
    what: str
    version: int = 0
    owner: str = ""
    merged: bool = False
    before: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class CycleState(StrEnum):
    """The state of a cycle. A cycle whose process was killed while it was running or undone is rolled back."""

    RUNNING = "running"
    KEPT = "kept"  # its change is kept
    NOTHING = "nothing"  # there was nothing to change
    ROLLED_BACK = "rolled_back"
    UNDOING = "undoing"
    UNDONE = "undone"


UNFINISHED = (CycleState.RUNNING, CycleState.UNDOING)


@dataclass(frozen=True, slots=True)
class HeldOutResult:
    """The number of held-out tasks that were solved before and after a change."""

    tasks: int = 0
    before: int = 0
    after: int = 0
    worse: tuple[int, ...] = ()  # numbers of the cycles whose tasks are no longer solved


@dataclass(frozen=True, slots=True)
class Cycle:
    """One cycle.

    Attributes:
        owner: The id of the process that works on it.
        started, ended: Seconds since the epoch; `ended` is 0 while it runs.
        why: Why it ended as it did, as a sentence.
        solved: Whether the loop solved the task at the end.
        tokens: The tokens of all its requests.
    """

    number: int
    user: str
    owner: str
    model: str
    state: CycleState = CycleState.RUNNING
    started: float = 0.0
    ended: float = 0.0
    why: str = ""
    weakness: Weakness | None = None
    task: PracticeTask | None = None
    change: CycleChange | None = None
    solved: bool = False
    held_out: HeldOutResult = field(default_factory=HeldOutResult)
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class HeldOutTask:
    """An exam of an earlier cycle whose task was solved.

    Attributes:
        solved: Whether the loop solves it with the present skills and lessons; None if this is not known.
    """

    cycle: int
    exercise: Exercise
    solved: bool | None

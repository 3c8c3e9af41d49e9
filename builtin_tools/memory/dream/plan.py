"""`DreamPlan`: steps of consolidation that can be read, applied one by one, and undone (MEM-9).

A plan refers to entries by id and does not contain their texts. When any entry of an owner is erased, all plans of the
owner are deleted, because a step may contain words that a model derived from the erased text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class StepKind(StrEnum):
    """The kind of change that a step makes.

    Attributes:
        MERGE: Marks facts as replaced by another fact that says the same thing.
        CLOSE: Marks a fact as no longer true, because a newer fact replaces it.
        PROFILE: Adds a repeated fact about the user to the profile.
        LESSON: Completes a draft of a lesson with a fix that a model proposed.
        EXPIRE: Hides scratchpad notes that have not been changed for a long time.
        SUGGEST: Proposes a composed skill for a repeated sequence of calls. Changes nothing.
    """

    MERGE = "merge"
    CLOSE = "close"
    PROFILE = "profile"
    LESSON = "lesson"
    EXPIRE = "expire"
    SUGGEST = "suggest"


class StepState(StrEnum):
    """The state of a step.

    Attributes:
        STALE: Not applied, because its entries have changed since the plan was made.
    """

    PLANNED = "planned"
    APPLIED = "applied"
    UNDONE = "undone"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class DreamStep:
    """One step of a plan.

    Attributes:
        entries: Ids of the entries that the step marks as replaced.
        keep: The id of the entry that stays: the fact that replaces `entries`, the fact to add to the profile, or the
            draft to complete. "" if there is none.
        data: JSON values for this kind of step, without texts of entries.
        before: The state before the step, as JSON values for undoing it; empty unless the step is applied.
    """

    kind: StepKind
    entries: tuple[str, ...] = ()
    keep: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    state: StepState = StepState.PLANNED
    before: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DreamPlan:
    """A plan to consolidate the memories of one owner.

    Attributes:
        made: When it was made, in seconds since the epoch.
        complete: False if time ran out before everything was examined.
    """

    id: str
    owner: str
    made: float
    steps: tuple[DreamStep, ...] = ()
    complete: bool = True

    def with_step(self, at: int, step: DreamStep) -> "DreamPlan":
        """Return the plan with `step` in place of the step at index `at`."""
        return replace(self, steps=(*self.steps[:at], step, *self.steps[at + 1 :]))

    def count(self, state: StepState) -> int:
        return sum(step.state is state for step in self.steps)


def steps_text(steps: tuple[DreamStep, ...]) -> str:
    """Encode steps as JSON."""
    rows = [
        {
            "kind": step.kind.value,
            "entries": step.entries,
            "keep": step.keep,
            "data": dict(step.data),
            "state": step.state.value,
            "before": dict(step.before),
        }
        for step in steps
    ]
    return json.dumps(rows, ensure_ascii=False)


def steps_of(text: str) -> tuple[DreamStep, ...]:
    """Decode steps that `steps_text` encoded."""
    return tuple(
        DreamStep(
            StepKind(row["kind"]),
            tuple(row["entries"]),
            row["keep"],
            row["data"],
            StepState(row["state"]),
            row["before"],
        )
        for row in json.loads(text)
    )

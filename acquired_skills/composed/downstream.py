"""Records, as test cases, the calls of skills whose results made a later step of a pipeline fail (SKILL-13)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acquired_skills.lifecycle.track_record import TrackRecord
from acquired_skills.model.skill import Skill
from engine.contract.turn import Turn

_MOST_ERROR = 200  # maximum number of characters of an error message
_MOST_VALUES = 1_000  # maximum number of values compared in one result or one input


@dataclass(frozen=True, slots=True)
class SkillResult:
    """A successful call of a skill in a run."""

    skill: Skill
    inputs: Mapping[str, Any]
    output: Any


async def keep_causes(
    results: Sequence[SkillResult], inputs: Mapping[str, Any], error: str, track: TrackRecord, turn: Turn
) -> None:
    """Record the calls of skills whose results, or parts of them, are among the inputs of a failed step.

    These calls become test cases for the next version of the skill. They do not count as failures, because the fault
    may be in the pipeline.
    """
    given = list(_values(inputs))
    for one in results:
        if any(value in given for value in _values(one.output)):
            await track.keep_failed(
                one.skill, one.inputs, f"the result made a later step fail: {error[:_MOST_ERROR]}", turn
            )


def _values(value: Any) -> Iterator[Any]:
    """Yield a JSON value and the values inside it, except booleans, nulls and empty values, which occur everywhere."""
    left, seen = [value], 0
    while left and seen < _MOST_VALUES:
        each = left.pop()
        seen += 1
        if isinstance(each, Mapping):
            left += each.values()
        elif isinstance(each, list):
            left += each
        if not isinstance(each, bool) and each not in (None, "", [], {}):
            yield each

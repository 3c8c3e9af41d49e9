"""Calls of a turn that may run concurrently share a stage, and the order of calls is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.contract.result import ToolCall
from engine.contract.spec import Annotations, ToolSpec
from engine.dispatch.stages import MOST_AT_ONCE, stages

pytestmark = pytest.mark.spec("CALL-7")
SPECS = {
    "reads": ToolSpec("reads", "", annotations=Annotations(read_only=True)),
    "sets": ToolSpec("sets", "", annotations=Annotations(idempotent=True)),
    "sends": ToolSpec("sends", "", annotations=Annotations(destructive=True)),
}


def of(*names: str) -> list[list[str]]:
    calls = [ToolCall(name, {}) for name in names]
    return [[calls[index].name for index in stage] for stage in stages(calls, SPECS)]


def test_adjacent_read_only_or_idempotent_calls_share_a_stage_and_others_do_not() -> None:
    assert of("reads", "sets", "sends", "sends", "reads") == [["reads", "sets"], ["sends"], ["sends"], ["reads"]]


def test_a_call_of_an_unknown_tool_has_its_own_stage() -> None:
    assert of("reads", "made_up", "reads") == [["reads"], ["made_up"], ["reads"]]


@given(names=some.lists(some.sampled_from([*SPECS, "made_up"]), max_size=40))
def test_every_call_is_in_exactly_one_stage_in_the_original_order(names: list[str]) -> None:
    made = of(*names)
    assert [name for stage in made for name in stage] == names
    assert all(len(stage) <= MOST_AT_ONCE for stage in made)
    assert all(len(stage) == 1 or set(stage) <= {"reads", "sets"} for stage in made)

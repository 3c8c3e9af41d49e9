"""Calls of one turn: those that may run side by side share a stage, and nothing changes its place in the order."""

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


def test_neighbours_that_read_or_are_idempotent_share_a_stage_and_others_stand_alone() -> None:
    assert of("reads", "sets", "sends", "sends", "reads") == [["reads", "sets"], ["sends"], ["sends"], ["reads"]]


def test_a_tool_nobody_knows_stands_alone() -> None:
    assert of("reads", "made_up", "reads") == [["reads"], ["made_up"], ["reads"]]


@given(names=some.lists(some.sampled_from([*SPECS, "made_up"]), max_size=40))
def test_every_call_is_in_exactly_one_stage_in_the_order_asked(names: list[str]) -> None:
    made = of(*names)
    assert [name for stage in made for name in stage] == names
    assert all(len(stage) <= MOST_AT_ONCE for stage in made)
    assert all(len(stage) == 1 or set(stage) <= {"reads", "sets"} for stage in made)

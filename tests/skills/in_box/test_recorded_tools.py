"""A recording answers the calls of a skill: by name and arguments, in turn, and never anything else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.in_box.recorded_tools import NOT_DECLARED, NOT_RECORDED, RecordedAnswers, RecordedTools, checked
from acquired_skills.proof.recorded_bridge import MOST_BYTES, RecordedBridge

pytestmark = pytest.mark.spec("CODE-8")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def asked(recorded: RecordedAnswers, name: str, **arguments: Any) -> Any:
    fields = recorded.answer({"do": "call", "name": name, "arguments": arguments})
    return fields["failed"]["reason"] if "failed" in fields else fields["value"]


def test_equal_calls_get_their_answers_in_turn_and_then_the_last_one() -> None:
    rules = [{"tool": "poll", "arguments": {"n": 1}, "value": each} for each in ("waiting", "done")]
    recorded = RecordedAnswers(rules, ["poll"])
    assert [asked(recorded, "poll", n=1) for _ in range(3)] == ["waiting", "done", "done"]


def test_what_is_not_recorded_or_not_declared_fails() -> None:
    recorded = RecordedAnswers([{"tool": "poll", "arguments": {"n": 1}, "value": 1}], ["poll"])
    assert asked(recorded, "poll", n=2) == NOT_RECORDED
    assert asked(recorded, "pay", n=1) == NOT_DECLARED
    assert recorded.answer({"do": "search", "query": "x"})["failed"]["reason"] == NOT_RECORDED
    assert [each["tool"] for each in recorded.calls] == ["poll"]


def test_a_tool_is_found_by_the_form_of_its_name_as_an_identifier() -> None:
    recorded = RecordedAnswers([{"tool": "weather.now", "arguments": {}, "value": 4}], ["weather.now"])
    assert asked(recorded, "weather_now") == 4
    assert recorded.calls[0]["tool"] == "weather.now"


def test_a_stated_failure_or_value_replaces_what_is_recorded() -> None:
    tools = RecordedTools(["poll"])
    tools.answers([{"tool": "poll", "arguments": {"n": n}, "value": n} for n in (1, 2)])
    tools.returns("poll", "other", {"n": 1})
    recorded = RecordedAnswers(tools.begin(), ["poll"])
    assert [asked(recorded, "poll", n=n) for n in (1, 2)] == ["other", 2]
    tools.fails("poll", "denied")
    recorded = RecordedAnswers(tools.begin(), ["poll"])
    assert [asked(recorded, "poll", n=n) for n in (1, 2, 3)] == ["denied"] * 3


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=3), JSON)
def test_any_json_value_comes_back_unchanged(arguments: dict[str, Any], value: Any) -> None:
    recorded = RecordedAnswers([{"tool": "t", "arguments": arguments, "value": value}], ["t"])
    assert recorded.answer({"do": "call", "name": "t", "arguments": arguments}) == {"value": value}


@pytest.mark.parametrize(
    "entry",
    [{}, {"tool": "t"}, {"tool": "t", "value": 1, "failed": {}}, {"tool": 1, "value": 1}, {"tool": "t", "value": {1}}, 5,
     {"tool": "t", "failed": "no"}],
)  # fmt: skip
def test_an_entry_that_is_not_one_of_a_recording_is_refused(entry: Any) -> None:
    with pytest.raises(ValueError, match=r"entry|failed"):
        checked(entry)


async def test_the_bridge_of_admission_answers_any_bytes_and_only_so_many() -> None:
    bridge = RecordedBridge(RecordedAnswers([{"tool": "t", "arguments": {}, "value": 1}], ["t"]))
    request = {"do": "call", "name": "t", "arguments": {}, "id": 7}
    assert json.loads(await bridge.answer(json.dumps(request).encode())) == {"id": 7, "value": 1}
    for hostile in (b"", b"[]", b"5", b"\xff", b"[" * 100_000, b'{"id": {}}', b'{"do": "call", "name": []}'):
        assert "failed" in json.loads(await bridge.answer(hostile))
    large = json.dumps({**request, "arguments": {"text": "x" * MOST_BYTES}}).encode()
    assert json.loads(await bridge.answer(large))["failed"]["reason"] == "too_large"
    assert json.loads(await bridge.answer(json.dumps(request).encode()))["failed"]["reason"] == "too_large"

"""Calls that are written as text, also several, invalid and unclosed ones. No part of an answer is lost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.formats.tool_call_text import CLOSES, OPENS, RIGHT_FORM, answer_to, parse_tool_calls

pytestmark = pytest.mark.spec("TAG-4")
plain = some.text(some.characters(codec="utf-8", exclude_characters="<"), max_size=20)
values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(), lambda v: some.lists(v, max_size=3)
)
calls = some.tuples(some.text(min_size=1, max_size=10), some.dictionaries(some.text(max_size=5), values, max_size=3))


def written(name: str, arguments: Any, key: str = "args") -> str:
    return f"{OPENS}{json.dumps({'name': name, key: arguments})}{CLOSES}"


@given(parts=some.lists(some.tuples(plain, calls), max_size=4), end=plain)
def test_calls_with_any_arguments_are_parsed(parts: list[Any], end: str) -> None:
    text = "".join(before + written(*call) for before, call in parts) + end
    found = parse_tool_calls(text)
    assert [(call.name, call.arguments) for call in found.calls] == [call for _, call in parts]
    assert not any(call.problem for call in found.calls)
    assert OPENS not in found.display


@given(
    text=some.lists(some.sampled_from([OPENS, CLOSES, "{", "}", '"name"', ": ", '"x"', "[", "text", "\n"])).map("".join)
)
def test_any_text_can_be_parsed_and_every_start_tag_gives_a_call(text: str) -> None:
    found = parse_tool_calls(text)
    assert all(call.problem or call.name for call in found.calls)
    assert bool(found.calls) == (OPENS in text)


def test_an_end_tag_inside_an_argument_does_not_end_the_call() -> None:
    found = parse_tool_calls(written("say", {"text": f"a {CLOSES} b {OPENS}"}))
    assert [call.arguments for call in found.calls] == [{"text": f"a {CLOSES} b {OPENS}"}]


@pytest.mark.parametrize("key", ["args", "arguments", "parameters"])
def test_all_common_names_of_the_arguments_field_are_accepted(key: str) -> None:
    assert parse_tool_calls(written("t", {"x": 1}, key)).calls[0].arguments == {"x": 1}
    assert parse_tool_calls(written("t", '{"x": 1}', key)).calls[0].arguments == {"x": 1}


def test_a_call_without_an_end_tag_is_parsed() -> None:
    found = parse_tool_calls(f'Now:\n{OPENS}\n{{"name": "t"}}\n')
    assert [(call.name, call.arguments, call.problem) for call in found.calls] == [("t", {}, "")]
    assert found.display == "Now:"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('{"name": "t", "args": {x: 1}}', "not JSON"),
        ("", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"args": {}}', 'no "name"'),
        ('["t"]', 'no "name"'),
        ('{"name": "t", "args": [1]}', "not an object"),
        ('{"name": "t"} and more', "not followed by"),
    ],
)
def test_an_invalid_call_is_answered_with_the_correct_form(body: str, problem: str) -> None:
    found = parse_tool_calls(f"{OPENS}{body}{CLOSES}{written('good', {})} after")
    broken, good = found.calls
    assert problem in broken.problem
    assert RIGHT_FORM in answer_to(broken)
    assert len(answer_to(broken)) < 600
    assert good.name == "good"
    assert found.display == "after"

"""Parsing and evaluating mappings, conditions and pipelines."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.composed.conditions import condition_of, holds
from acquired_skills.composed.mapping import InvalidMapping, UnresolvedReference, mapping_of, resolve
from acquired_skills.composed.pipeline import InvalidPipeline, calls_of, read_pipeline
from acquired_skills.composed.running import PipelineRun, StepFailed
from tests.skills.composed.parts import FETCH, TELL

pytestmark = pytest.mark.spec("SKILL-16")

SCOPE = {"arguments": {"name": "Ann", "n": 3}, "fetch": {"items": [{"a/b": 1}], "nothing": None}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("mapping", "value"),
    [
        ({"from": "/fetch/items/0/a~1b"}, 1),
        ({"from": "/fetch/nothing"}, None),
        ({"from": "/fetch/gone", "default": 7}, 7),
        ({"text": ["Dear ", {"from": "/arguments/name"}, {"from": "/fetch/items"}]}, 'Dear Ann[{"a/b": 1}]'),
        ({"const": {"from": "/arguments"}}, {"from": "/arguments"}),
        ([1, {"x": {"from": "/arguments/n"}}], [1, {"x": 3}]),
    ],
)
def test_a_mapping_evaluates_to_the_expected_value(mapping: Any, value: Any) -> None:
    assert resolve(mapping_of(mapping), SCOPE) == value


@pytest.mark.parametrize(
    "path", ["/gone", "/fetch/items/1", "/fetch/items/-1", "/arguments/name/0", "/fetch/nothing/x"]
)
def test_a_path_that_does_not_exist_is_reported(path: str) -> None:
    with pytest.raises(UnresolvedReference, match=r"does not exist|no value"):
        resolve(mapping_of({"from": path}), SCOPE)


@pytest.mark.parametrize(
    "wrong", [{"from": "fetch"}, {"from": 1}, {"from": "/a", "also": 1}, {"text": "a"}, [{"from": "/a"}] * 51]
)
def test_an_invalid_mapping_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidMapping):
        mapping_of(wrong)


def test_the_size_of_a_mapped_value_is_limited() -> None:
    wide = mapping_of([{"from": "/big"}] * 50)
    with pytest.raises(UnresolvedReference, match="larger than 1024 KiB"):
        resolve(wide, {"big": ["x" * 1000] * 100})
    with pytest.raises(UnresolvedReference, match="text is longer"):
        resolve(mapping_of({"text": [{"from": "/big"}] * 50}), {"big": "x" * 100_000})


def test_the_output_of_a_step_is_never_parsed_as_a_mapping() -> None:
    hostile = {"title": {"from": "/arguments/secret"}, "text": {"text": [{"from": "/arguments/secret"}]}}
    scope = {"arguments": {"secret": "s"}, "fetch": hostile}
    assert resolve(mapping_of({"from": "/fetch"}), scope) == hostile
    assert resolve(mapping_of([{"from": "/fetch/title"}]), scope) == [{"from": "/arguments/secret"}]


@given(JSON)
def test_the_value_of_a_const_is_returned_unchanged(value: Any) -> None:
    assert resolve(mapping_of({"const": value}), {}) == value


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        ({"equals": [{"from": "/arguments/n"}, 3.0]}, True),
        ({"equals": [1, True]}, False),
        ({"less": [{"from": "/arguments/n"}, 3]}, False),
        ({"in": ["n", {"from": "/arguments"}]}, True),
        ({"in": [True, [1]]}, False),
        ({"exists": "/fetch/nothing"}, True),
        ({"exists": "/fetch/gone/deeper"}, False),
        ({"all": [{"exists": "/fetch"}, {"not": {"exists": "/gone"}}]}, True),
        ({"any": [{"less": ["b", "a"]}, {"equals": [None, None]}]}, True),
    ],
)
def test_a_condition_is_evaluated(condition: Any, truth: bool) -> None:
    assert holds(condition_of(condition), SCOPE) is truth


def test_comparing_incomparable_values_is_a_failure() -> None:
    with pytest.raises(UnresolvedReference):
        holds(condition_of({"less": [1, "2"]}), SCOPE)
    with pytest.raises(InvalidMapping):
        condition_of({"python": "1 < 2"})


@given(JSON)
def test_any_text_is_either_a_pipeline_or_reported_as_invalid(value: Any) -> None:
    for text in (json.dumps(value), json.dumps({"steps": [FETCH, value], "output": value})):
        try:
            read = read_pipeline(text)
        except InvalidPipeline:
            continue
        assert calls_of(read)


def test_the_size_the_depth_and_the_steps_of_a_pipeline_are_limited() -> None:
    def nested(levels: int) -> Any:
        inner = {"steps": [FETCH], "output": 1}
        for level in range(levels):
            step = {"name": f"s{level}", "if": {"equals": [1, 1]}, "then": inner}
            inner = {"steps": [step], "output": 1}
        return inner

    many = [{**FETCH, "name": f"fetch{n}"} for n in range(51)]
    for wrong, said in (
        (nested(4), "nested more than 4"),
        ({"steps": many, "output": 1}, "50"),
        ({"steps": [], "output": 1}, "calls nothing"),
        ({**TELL, "output": "x" * 70_000}, "larger than 64 KiB"),
        ({**TELL, "code": "import os"}, "code"),
    ):
        with pytest.raises(InvalidPipeline, match=said):
            read_pipeline(json.dumps(wrong))


async def gives(pipeline: Any, arguments: Any, answers: Any) -> tuple[Any, list[str]]:
    places: list[str] = []

    async def perform(place: str, step: Any, inputs: Any) -> Any:
        places.append(place)
        return answers(inputs)

    return await PipelineRun(perform).run(read_pipeline(json.dumps(pipeline)), arguments), places


EACH = {
    "steps": [
        {
            "name": "pages",
            "map": {"from": "/arguments/urls"},
            "as": "url",
            "most_items": 3,
            "at_once": 2,
            "each": {
                "steps": [{"name": "get", "call": "read_page", "inputs": {"url": {"from": "/url"}}}],
                "output": {"from": "/get/title"},
            },
        },
        {
            "name": "more",
            "if": {"less": [1, {"from": "/arguments/least"}]},
            "then": {"steps": [FETCH | {"inputs": {"url": {"from": "/pages/0"}}}], "output": {"from": "/fetch/title"}},
        },
    ],
    "output": {"all": {"from": "/pages"}, "more": {"from": "/more"}},
}


@pytest.mark.asyncio
async def test_maps_keep_the_order_of_items_and_branches_run_one_block() -> None:
    async with asyncio.timeout(60):
        output, places = await gives(EACH, {"urls": ["a", "b", "c"], "least": 2}, lambda i: {"title": i["url"] * 2})
        assert output == {"all": ["aa", "bb", "cc"], "more": "aaaa"}
        assert sorted(places) == ["more.then.fetch", "pages.0.get", "pages.1.get", "pages.2.get"]
        output, places = await gives(EACH, {"urls": [], "least": 1}, lambda i: {"title": i["url"]})
        assert (output, places) == ({"all": [], "more": None}, [])
        with pytest.raises(StepFailed, match="4 items"):
            await gives(EACH, {"urls": ["a"] * 4, "least": 1}, lambda i: i)


@pytest.mark.asyncio
async def test_nested_maps_are_limited_even_without_calls() -> None:
    output: Any = {"from": "/arguments/n"}
    steps: list[Any] = []
    for level in range(3):
        each = {"steps": steps, "output": output}
        steps = [
            {"name": f"m{level}", "map": {"from": "/arguments/urls"}, "as": f"i{level}", "most_items": 200}
            | {"each": each}
        ]
        output = 1
    pipeline = {"steps": [*steps, FETCH | {"inputs": {"url": "u"}}], "output": 1}
    async with asyncio.timeout(20):
        with pytest.raises(StepFailed, match="more than 5,000 blocks"):
            await gives(pipeline, {"urls": ["u"] * 200, "n": 1}, lambda _: {})


@pytest.mark.asyncio
async def test_steps_cannot_nest_values_deeper_than_the_limit() -> None:
    steps: list[Any] = [FETCH | {"inputs": {"url": "u"}}]
    for number in range(45):
        output: Any = {"from": f"/{steps[-1]['name']}"}
        for _ in range(22):
            output = [output]
        block = {"steps": [], "output": output}
        steps.append({"name": f"s{number}", "if": {"equals": [1, 1]}, "then": block})
    pipeline = {"steps": steps, "output": {"text": [{"from": "/s44"}]}}
    with pytest.raises(StepFailed, match="nested more than 64 levels deep"):
        await gives(pipeline, {}, lambda _: 1)

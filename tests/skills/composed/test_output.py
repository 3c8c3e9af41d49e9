"""The output schema of a composed skill is derived from the output schemas of its tools."""

from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

from acquired_skills.composed.output import derived_output
from acquired_skills.composed.pipeline import read_pipeline
from engine.contract.spec import ToolSpec
from engine.contract.strict_json import write_json
from engine.registry.decorate import tool
from tests.skills.composed.parts import TELL, TELL_CASE, compose, opened

pytestmark = pytest.mark.spec("SKILL-16", "FACE-22")


class Page(TypedDict):
    title: str
    links: list[str]


@tool()
async def read(url: str) -> Page:
    """Read a page."""
    return {"title": url, "links": []}


READ = {"name": "fetch", "call": "read", "inputs": {"url": {"from": "/arguments/url"}}}
ARGUMENTS = {"type": "object", "properties": {"url": {"type": "string"}, "urls": {"type": "array"}}}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}


def derived(steps: list[Any], output: Any, **returns: Any) -> Any:
    tools = {"read": read.spec}
    for name, schema in returns.items():
        tools[name] = ToolSpec(name=name, description="Give it.", parameters={"type": "object"}, returns=schema)
    pipeline = read_pipeline(write_json({"steps": steps, "output": output}))
    return derived_output(pipeline, ARGUMENTS, tools)


def test_the_output_of_the_last_step_is_that_of_its_tool() -> None:
    assert derived([READ], {"from": "/fetch"}) == read.spec.returns
    assert derived([READ], {"from": "/fetch/links"})["items"] == {"type": "string"}


def test_the_schema_requires_all_fields_and_allows_no_others() -> None:
    found = derived([READ], {"title": {"from": "/fetch/title"}, "n": 1})
    assert (sorted(found["required"]), found["additionalProperties"]) == (["n", "title"], False)
    assert (found["properties"]["title"]["type"], found["properties"]["n"]) == ("string", {"const": 1})


def test_the_output_of_a_map_is_a_list_and_that_of_a_branch_one_of_two() -> None:
    fetch = READ | {"inputs": {"url": {"from": "/item"}}}
    each = {
        "name": "all",
        "map": {"from": "/arguments/urls"},
        "each": {"steps": [fetch], "output": {"from": "/fetch/title"}},
    }
    found = derived([each], {"from": "/all"})
    assert (found["type"], found["items"]["type"]) == ("array", "string")
    branch = {"name": "b", "if": {"less": [1, 2]}, "then": {"steps": [READ], "output": {"from": "/fetch/title"}}}
    kinds = [one["type"] for one in derived([branch], {"from": "/b"})["anyOf"]]
    assert kinds == ["string", "null"]


def test_an_output_without_a_schema_is_unknown() -> None:
    give = {"name": "give", "call": "give"}
    assert derived([give], {"from": "/give"}) is None
    assert derived([give], {"from": "/give/a"}, give={"type": "object"}) is None


def test_references_are_replaced_by_their_definitions_unless_they_are_recursive() -> None:
    give = {"name": "give", "call": "give"}
    pair = {"type": "array", "prefixItems": [{"$ref": "#/$defs/N"}], "$defs": {"N": {"type": "integer"}}}
    assert derived([give], {"from": "/give"}, give=pair) == {"type": "array", "prefixItems": [{"type": "integer"}]}
    assert derived([give], {"from": "/give/0"}, give=pair) is None  # each item of a tuple has its own schema
    assert derived([give], {"from": "/give"}, give=NODE | {"$defs": {"Node": NODE}}) is None
    assert derived([give], {"from": "/give"}, give={"$ref": "https://example.com/schema"}) is None


async def test_a_composed_skill_is_stored_and_listed_with_its_output_schema(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        assert (await compose(engine, TELL, [TELL_CASE])).success
        (spec,) = [each.spec for each in (await engine.list_tools()).tools if each.spec.name == "tell_about"]
    assert spec.returns is not None
    assert spec.returns["required"] == ["title", "told"]
    async with opened(tmp_path) as engine:
        (again,) = [each.spec for each in (await engine.list_tools()).tools if each.spec.name == "tell_about"]
    assert again.returns == spec.returns

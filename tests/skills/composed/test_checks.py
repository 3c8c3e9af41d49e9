"""The static checks of a pipeline, and its proof by cases."""

import json
import re
from typing import Any

import pytest

from acquired_skills.composed.cases import read_cases
from acquired_skills.composed.checks import check_pipeline
from acquired_skills.composed.pipeline import InvalidPipeline, read_pipeline
from acquired_skills.composed.proof import prove
from acquired_skills.composed.types import kinds, schema_at
from acquired_skills.model.cycles import find_cycle, nesting_depth
from acquired_skills.model.effects import effects_of
from acquired_skills.model.skill import Skill
from builtin_tools.pack import TOOLS as BUILTIN
from engine.contract.turn import Turn
from tests.skills.composed.parts import FETCH, PAGE, SEND, TELL, TELL_CASE, TOOLS
from tests.skills.parts import skill

pytestmark = pytest.mark.spec("SKILL-16")
SPECS = {tool.spec.name: tool.spec for tool in (*TOOLS, *BUILTIN)}


def problems(pipeline: Any, turn: Turn | None = None) -> list[str]:
    return check_pipeline(read_pipeline(json.dumps(pipeline)), SPECS, turn or Turn()).problems


def steps(*these: Any, output: Any = None, **more: Any) -> dict[str, Any]:
    return {"steps": list(these), "output": output, **more}


BRANCH = {"name": "either", "if": {"exists": "/arguments/url"}, "then": steps(FETCH, output={"from": "/fetch"})}
TYPED = {"type": "object", "properties": {"url": {"type": "integer"}}, "required": ["url"]}


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        (steps(SEND, FETCH), "`fetch` is not available there"),
        (steps(BRANCH, output={"from": "/fetch/title"}), "`fetch` is not available there"),
        (steps(FETCH, FETCH), "The name `fetch` is used twice"),
        (steps({**FETCH, "call": "read_pages"}), "no tool or skill called `read_pages`"),
        (steps({**FETCH, "call": "manage_skills"}), "cannot be a step"),
        (steps({**FETCH, "call": "replan"}), "cannot be a step"),
        (steps({**FETCH, "inputs": {}}), "needs `url`"),
        (steps({**FETCH, "inputs": {"url": "u", "ulr": "u"}}), "no parameter `ulr` .nearest: url."),
        (steps({**FETCH, "inputs": {"url": 5}}), "`url` of fetch is 5 is not of type"),
        (steps({**FETCH, "inputs": {"url": [{"from": "/arguments/u"}]}}), "has the type array, but string is expected"),
        (steps(FETCH, parameters=TYPED), "has the type integer, but string is expected"),
        (
            steps(FETCH, parameters={"type": "object", "properties": {}}),
            "but the schema of `arguments` has no such value",
        ),
        (steps(FETCH, parameters={**TYPED, "properties": {"url": {}, "b": {}}}), "These arguments are not used: b"),
        (steps({"name": "m", "map": {"text": ["a"]}, "each": steps(FETCH)}), "has the type string, but must be a list"),
        (steps({**FETCH, "inputs": {"url": {"from": "/arguments/resume"}}}), "choose another name for yours"),
    ],
)
def test_problems_are_reported_before_anything_runs(pipeline: Any, said: str) -> None:
    found = "\n".join(problems(pipeline))
    assert re.search(said, found), found


def test_a_valid_pipeline_has_no_problems_and_its_parameters_are_derived_from_its_steps() -> None:
    checked = check_pipeline(read_pipeline(json.dumps(TELL)), SPECS, Turn())
    assert checked.problems == []
    assert checked.parameters["required"] == ["to", "url"]
    assert checked.parameters["properties"]["url"] == {"type": "string", "description": "The address of the page."}


def test_a_user_cannot_compose_a_tool_that_the_user_may_not_call() -> None:
    assert "may not be called" in "\n".join(problems(TELL, Turn(permission="user")))


def test_a_composed_skill_has_the_combined_effects_of_its_steps() -> None:
    effects = effects_of(SPECS[name] for name in ("read_page", "send_note", "burn_notes"))
    assert (effects.required_permission, effects.destructive, effects.read_only) == ("admin", True, False)
    assert effects.side_effects == ("message_sent",)
    assert effects_of([SPECS["read_page"]]).read_only


def composed(name: str, *calls: str) -> Skill:
    return Skill(**{field: getattr(skill(name), field) for field in Skill.__dataclass_fields__} | {"calls": calls})


def test_a_cycle_is_found_through_any_number_of_skills() -> None:
    skills = {"b": composed("b", "c", "x"), "c": composed("c", "a"), "x": composed("x", "y"), "y": composed("y", "z")}
    assert find_cycle("a", ("b",), skills) == ("a", "b", "c", "a")
    assert find_cycle("a", ("a",), skills) == ("a", "a")
    assert find_cycle("d", ("b",), skills) == ()
    assert (nesting_depth(("x",), skills), nesting_depth(("z",), skills)) == (2, 0)


def test_types_are_inferred_only_as_far_as_they_are_known() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"enum": [1, "a"]}, "l": {"type": "array", "items": {"type": "null"}}},
    }
    assert kinds(schema_at(schema, ("n",)) or {}) == {"integer", "string"}
    assert kinds(schema_at(schema, ("l", "0")) or {}) == {"null"}
    assert schema_at(schema, ("l", "x")) is None
    assert schema_at(schema, ("other",)) == {}


async def no_skills(name: str, arguments: Any) -> None:
    return None


async def proved(pipeline: Any, *cases: Any, threshold: float = 0.6) -> str:
    proof = await prove(
        read_pipeline(json.dumps(pipeline)), read_cases(json.dumps(cases)), (), no_skills, threshold=threshold
    )
    return "\n".join(problem.text for problem in proof.problems)


@pytest.mark.asyncio
async def test_cases_that_detect_every_change_prove_a_pipeline() -> None:
    assert await proved(TELL, TELL_CASE, threshold=1.0) == ""


@pytest.mark.asyncio
async def test_a_case_that_does_not_depend_on_any_step_proves_nothing() -> None:
    empty = {"arguments": {"url": "u", "to": "t"}, "steps": {"fetch": PAGE, "send": {}}, "expect": 1}
    assert "Case 1 proves nothing" in await proved({**TELL, "output": 1}, empty)


@pytest.mark.asyncio
async def test_a_step_that_no_case_depends_on_is_named() -> None:
    case = {**TELL_CASE, "asked": {"fetch": TELL_CASE["asked"]["fetch"]}, "expect": "Bread"}
    assert "no case fails when `send` is left out" in await proved({**TELL, "output": {"from": "/fetch/title"}}, case)


@pytest.mark.asyncio
async def test_an_untested_branch_and_swapped_inputs_are_surviving_mutants() -> None:
    case = {key: value for key, value in TELL_CASE.items() if key != "asked"}
    said = await proved(TELL, case, threshold=0.9)
    assert "`to` and `text` of `send` are swapped" in said
    assert "`url` of `fetch` is null" in said
    either = {**BRANCH, "else": steps({**FETCH, "name": "other"}, output={"from": "/other"})}
    one_way = {"arguments": {"url": "u"}, "steps": {"fetch": 1, "other": 1}, "expect": 1}
    assert "`other` is left out" in await proved(steps(either, output={"from": "/either"}), one_way)


@pytest.mark.asyncio
async def test_a_call_without_an_output_in_the_case_is_not_made() -> None:
    case = {**TELL_CASE, "steps": {"fetch": PAGE}}
    assert "`send_note` is not run in a proof" in await proved(TELL, case)
    assert "No call step is named fetsh" in await proved(TELL, {**TELL_CASE, "steps": {"fetsh": 1}})


@pytest.mark.parametrize("cases", ["[]", "{}", '[{"arguments": {}}]', '[{"expect": 1, "code": "x"}]', "[1", "nul"])
def test_missing_cases_and_cases_without_assertions_are_refused(cases: str) -> None:
    with pytest.raises(InvalidPipeline):
        read_cases(cases)

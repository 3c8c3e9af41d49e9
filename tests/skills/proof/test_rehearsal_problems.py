"""Problems of a rehearsal depend only on the report of the box, so these tests need no box."""

from typing import Any

import pytest

from acquired_skills.proof.rehearsal_problems import rehearsal_problems
from sandbox.contract import CodeError, End, Outcome, Usage

A, B = "skill/test_x.py::test_a", "skill/test_x.py::test_b"


def one(outcome: str, text: str = "") -> dict[str, Any]:
    return {"outcome": outcome, "text": text, "seconds": 0.1}


def facts(**changes: Any) -> dict[str, Any]:
    sound: dict[str, Any] = {
        "phase": "tests",
        "schema": {"parameters": {"type": "object", "properties": {}}, "plain": True},
        "tests": [A, B],
        "collection_errors": [],
        "done": True,
        "runs": [
            {"kind": "raises", "results": {A: one("failed"), B: one("passed")}},
            {"kind": "none", "results": {B: one("failed")}},
            {"kind": "skill", "results": {A: one("passed"), B: one("passed")}},
            {"kind": "skill", "results": {B: one("passed"), A: one("passed")}},
        ],
    }
    return {**sound, **changes}


def told(value: Any, end: End = End.OK, **more: Any) -> str:
    return "\n".join(f"[{p.part}] {p.text}" for p in rehearsal_problems("x", Outcome(end, value=value, **more)))


def runs(*found: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"kind": kind, "results": results} for kind, results in found]


def test_a_valid_rehearsal_has_no_problems() -> None:
    assert told(facts()) == ""


@pytest.mark.spec("SKILL-4")
def test_a_test_that_passes_on_all_three_stubs_is_named() -> None:
    passed = {B: one("passed")}
    red = [("raises", {A: one("failed"), **passed}), ("none", passed), ("sentinel", passed)]
    green = {A: one("passed"), B: one("passed")}
    text = told(facts(runs=runs(*red, ("skill", green), ("skill", green))))
    assert text.startswith("[red] test_b proves nothing")
    assert "test_a" not in text


@pytest.mark.spec("SKILL-4")
def test_a_test_that_skips_itself_on_a_stub_has_not_failed_on_it() -> None:
    skipped = {A: one("skipped")}
    red = [("raises", skipped), ("none", skipped), ("sentinel", skipped)]
    text = told(facts(tests=[A], runs=runs(*red, ("skill", {A: one("passed")}), ("skill", {A: one("passed")}))))
    assert "[red] test_a proves nothing" in text


@pytest.mark.spec("SKILL-4")
def test_a_test_that_did_not_run_on_every_stub_is_reported() -> None:
    green = {A: one("passed")}
    text = told(facts(tests=[A], runs=runs(("raises", {A: one("passed")}), ("skill", green), ("skill", green))))
    assert "[limits] test_a" in text


@pytest.mark.spec("SKILL-5")
@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (one("failed", "E assert 1 == 2"), "E assert 1 == 2"),
        (one("timeout"), "takes too long"),
        (one("exited", "exited with status 0"), "exited with status 0"),
        (one("skipped"), "is skipped. Remove its `skip` mark or `pytest.skip` call"),
        (one("xfail"), "is expected to fail (xfail)"),
        (one("unreported"), "gave no report"),
    ],
)
def test_anything_but_a_pass_is_refused_with_what_to_change(outcome: dict[str, Any], says: str) -> None:
    found = facts()["runs"]
    found[2]["results"][A] = outcome
    text = told(facts(runs=found[:3]))
    assert text.startswith("[green] test_a")
    assert says in text


@pytest.mark.spec("SKILL-5")
def test_a_test_without_a_report_is_refused() -> None:
    found = facts()["runs"]
    del found[2]["results"][A]
    assert "[green] test_a gave no report" in told(facts(runs=found))


@pytest.mark.spec("SKILL-5")
def test_a_test_that_fails_only_in_the_second_run_is_reported_as_flaky() -> None:
    found = facts()["runs"]
    found[3]["results"][B] = one("failed", "E flaky")
    assert "the second time, in another order" in told(facts(runs=found))


@pytest.mark.spec("SKILL-5")
@pytest.mark.parametrize(
    ("passes", "says"),
    [
        (
            False,
            "[green] test_b passes alone, but fails when test_a runs before it:\nE 1 == 2\nThese tests share state",
        ),
        (True, "[green] test_b fails alone, but passes when test_a runs before it:\nE 1 == 2\nThese tests share state"),
    ],
)
def test_two_tests_that_share_state_are_named(passes: bool, says: str) -> None:
    found = facts()["runs"]
    found[3]["results"][B] = one("failed", "E 1 == 2")
    shared = [{"test": B, "other": A, "passes": passes}]
    assert says in told(facts(runs=found, shared_state=shared))


@pytest.mark.spec("SKILL-5")
def test_one_green_run_is_not_enough() -> None:
    assert "second run" in told(facts(runs=facts()["runs"][:3]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tests": [], "runs": []}, "[tests] pytest collects no test"),
        ({"collection_errors": ["E ImportError"], "runs": []}, "E ImportError"),
        ({"import_error": "ZeroDivisionError"}, "[code] Importing it fails"),
        ({"schema_error": "parameter `f` has the type DataFrame"}, "[schema]"),
        (
            {"done": False, "phase": "import", "ended": "exited with status 0"},
            "[code] The process exited with status 0",
        ),
        ({"done": False, "phase": "collection", "ended": "killed by SIGKILL"}, "[tests] The process killed"),
        ({"done": False, "phase": "tests", "ended": "time"}, "[limits] The time limit was reached"),
        (
            {"observations": {"unsendable": "a list in which `result[0]` is a Node"}},
            "[green] The function returns a list in which `result[0]` is a Node, which a tool cannot return as JSON. Convert it",
        ),
        ({"tests": [f"skill/t.py::{i}" for i in range(400)]}, "[tests] pytest collects 400"),
    ],
)
def test_every_other_problem_is_reported(changes: dict[str, Any], says: str) -> None:
    assert says in told(facts(**changes))


@pytest.mark.parametrize("end", [End.TIMEOUT, End.MEMORY, End.CPU, End.KILLED, End.PROCESSES])
def test_a_box_that_reached_a_limit_is_a_problem(end: End) -> None:
    text = told(facts(), end, usage=Usage(wall_s=3.0))
    assert f"the box's {end} limit" in text


def test_a_box_without_a_report_is_a_problem() -> None:
    assert "The run of the tests crashed" in told(None)
    assert "boom" in told(None, End.ERROR, error=CodeError("ValueError", "boom", ""))


SOUND_CALL = {"positional": [1], "named": {}, "value": 2}


@pytest.mark.spec("SKILL-1")
@pytest.mark.parametrize(
    "lie",
    [
        {"runs": 7},
        {"runs": [{"kind": "skill", "results": []}]},
        {"runs": [{"kind": [], "results": {}}]},
        {"runs": [{"kind": "skill", "results": {A: {**one("passed"), "seconds": float("nan")}}}]},
        {"runs": [{"kind": "skill", "results": {A: {**one("failed"), "text": None}}}]},
        {"runs": [{"kind": "skill", "results": {}}] * 1_000},
        {"phase": ["tests"]},
        {"tests": None},
        {"tests": [A, 7]},
        {"tests": ["x" * 1_000_000]},
        {"tests": ["skill/\ud800"]},
        {"collection_errors": "no list"},
        {"import_error": {}},
        {"import_error": "x" * 1_000_000},
        {"schema_error": 7},
        {"schema": None},
        {"schema": {"parameters": [], "plain": True}},
        {"schema": {"parameters": {"type": "object"}}},
        {"schema": {"parameters": {"type": "object"}, "plain": True, "inferred": {"x": "__import__('os')"}}},
        {"observations": [1]},
        {"observations": {"unsendable": ["set"]}},
        {"observations": {"unrecorded": -1}},
        {"observations": {"calls": [{"positional": 1, "named": {}}]}},
        {"observations": {"calls": [SOUND_CALL] * 10_000}},
        {"mutation": {"made": 1, "killed": "all", "survived": [], "seconds": 1.0}},
        {"mutation": {"made": 1, "killed": float("inf"), "survived": [], "seconds": 1.0}},
        {
            "mutation": {
                "made": 1,
                "killed": 0,
                "survived": [{"line": None, "before": "a", "after": "b"}],
                "seconds": 1.0,
            }
        },
        {"mutation": {"made": 1, "killed": 0, "survived": [{}], "seconds": 1.0}},
        {"mutation": {"made": 1, "killed": 0, "survived": [], "seconds": float("nan")}},
        {"ended": 9, "done": False},
        {"and": "more"},
    ],
    ids=lambda lie: str(lie)[:50],
)
def test_a_malformed_report_is_a_problem_and_raises_no_exception(lie: dict[str, Any]) -> None:
    assert told(facts(**lie)).startswith("[limits] The output of the box is not a valid report (")


BOMB = {f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level - 1}"}] * 8} for level in range(1, 9)}


@pytest.mark.spec("SKILL-1", "SKILL-3")
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"type": "array"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"x": True}},
        {"type": "object", "properties": {"x": {"description": 7}}},
        {"type": "object", "properties": {"x": {"description": "\ud800"}}},
        {"type": "object", "properties": {"x": {"default": float("nan")}}},
        {"type": "object", "required": "x"},
        {"type": "object", "$defs": BOMB | {"a0": {"type": "object"}}, "allOf": [{"$ref": "#/$defs/a8"}]},
        {"type": "object", "properties": {"x": {"enum": ["y" * 1_000_000]}}},
    ],
    ids=lambda schema: str(schema)[:50],
)
def test_a_schema_that_cannot_be_used_is_refused(parameters: dict[str, Any]) -> None:
    text = told(facts(schema={"parameters": parameters, "plain": True}))
    assert text.startswith("[schema] The JSON Schema of the signature cannot be used: ")

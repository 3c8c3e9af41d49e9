"""Optional parameters that no test passes are passed in questions, since broken code hides there."""

from dataclasses import replace

import pytest

from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import Admission, admit
from acquired_skills.proof.admission_report import report_notes
from acquired_skills.proof.json_calls import JsonCalls
from acquired_skills.proof.questions import MOST_QUESTIONS
from acquired_skills.proof.untested_options import option_calls, untested_options
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import UNHURRIED, proposal

pytestmark = pytest.mark.spec("GATE-10")
ON_THE_BOX = pytest.mark.asyncio(loop_scope="module")
TESTS = (
    "from add_one import add_one\n\n\ndef test_it():\n"
    "    assert add_one(1) == 2\n    assert add_one(0) == 1\n    assert add_one(-5) == -4\n    assert add_one(7) == 8\n"
)


def offered(parameters: str, body: str) -> Proposal:
    """Return a proposal that is admitted without questions if all parameters but the first are ignored."""
    code = f'def add_one(number: int, {parameters}) -> int:\n    """Add one.\n\n    Args:\n        number: to add to.\n    """\n'
    return replace(proposal(tests=TESTS), code=f"{code}    {body}\n")


async def proposed(box: NamespaceSandbox, given: Proposal) -> Admission | SkillRefused:
    try:
        return await admit(ParsedProposal.parse(given), box, seed=1, effort=UNHURRIED)
    except SkillRefused as refused:
        return refused


@ON_THE_BOX
async def test_broken_code_behind_an_option_that_no_test_passes_is_asked_about(box: NamespaceSandbox) -> None:
    given = offered("double: bool = False", "return number + 1 if not double else number + 2")  # instead of * 2
    found = await proposed(box, given)
    assert isinstance(found, SkillRefused)
    assert "No test passes `double`, so nothing shows what happens then." in str(found)
    asked = [each.arguments for each in found.questions if "double" in each.arguments]
    assert asked
    assert asked[0]["double"] is True
    right = [Prediction(each, {"result": (each["number"] + 1) * 2}) for each in asked if each["double"]]
    answered = await proposed(box, replace(given, expected=tuple(right)))
    assert isinstance(answered, SkillRefused)
    assert answered.disputed


@ON_THE_BOX
async def test_correct_answers_about_options_admit_the_skill_and_leave_no_note(box: NamespaceSandbox) -> None:
    given = offered("step: int = 1, factor: int = 1", "return (number + step) * factor")
    for _ in range(4):
        found = await proposed(box, given)
        if isinstance(found, Admission):
            break
        answers = [
            Prediction(a, {"result": (a["number"] + a.get("step", 1)) * a.get("factor", 1)})
            for a in (each.arguments for each in found.questions)
        ]
        given = replace(given, expected=(*given.expected, *answers))
    assert isinstance(found, Admission)
    assert {"step", "factor"} <= {name for each in given.expected for name in each.arguments}
    assert len(given.expected) <= MOST_QUESTIONS
    assert not [note for note in report_notes(found.report) if "No test passes" in note]


@ON_THE_BOX
async def test_an_option_for_which_no_call_can_be_made_is_named_in_a_note(box: NamespaceSandbox) -> None:
    found = await proposed(box, offered("extra: dict[str, int] | None = None", "return number + 1"))
    assert isinstance(found, Admission)
    assert any(note.startswith("No test passes `extra`") for note in report_notes(found.report))


@ON_THE_BOX
async def test_a_skill_whose_tests_pass_all_its_options_is_not_asked_about_them(box: NamespaceSandbox) -> None:
    given = offered("step: int = 1", "return number + step")
    tests = f"{TESTS}    assert add_one(1, 4) == 5\n    assert add_one(3, step=-2) == 1\n"
    assert isinstance(await proposed(box, replace(given, tests=tests)), Admission)


def test_values_come_from_the_code_the_schema_and_the_default() -> None:
    code = ParsedSource.parse("def f(text, case='lower', width=3, mode='a'):\n    return case.strip() == 'upper'\n")
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "case": {"type": "string", "default": "lower"},
            "width": {"type": "integer", "default": 2, "maximum": 2},
            "mode": {"enum": ["a", "b"], "default": "a"},
            "day": {"type": "string", "format": "date", "default": "2026-01-01"},
        },
        "required": ["text"],
    }
    calls = JsonCalls(list(schema["properties"]), [{"arguments": ["x", "lower"], "named": {}}])
    assert untested_options(schema, calls) == ["width", "mode", "day"]
    made = [each["named"] for each in option_calls(["case", "width", "mode"], schema, calls, code)]
    assert made[0] == {"case": "upper"}
    assert [each["width"] for each in made if "width" in each] == [1, 0]
    assert [each["mode"] for each in made if "mode" in each] == ["b"]

"""A second implementation of a skill answers the questions of admission in a separate box."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import Admission, admit
from acquired_skills.proof.admission_report import kept_reference, report_lines, report_summary
from acquired_skills.proof.static_checks import check
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import UNHURRIED, opened_library, proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("GATE-5")]
BODY = "if number > 100:\n        return 100\n    return number + 1"
WRONG = BODY.replace("> 100", ">= 100")  # returns 100 for 100
SLOW = "def add_one(number):\n    return sorted([100, number] if number > 100 else [number + 1])[0]\n"


def offered(body: str = BODY, reference: str = SLOW, **more: Any) -> Proposal:
    return proposal(body=body, reference=reference, **more)


async def proposed(box: NamespaceSandbox, given: Proposal, **more: Any) -> Admission | SkillRefused:
    try:
        return await admit(check(given, frozenset()), box, seed=1, effort=UNHURRIED, **more)
    except SkillRefused as refused:
        return refused


async def refused(box: NamespaceSandbox, given: Proposal, **more: Any) -> SkillRefused:
    found = await proposed(box, given, **more)
    assert isinstance(found, SkillRefused)
    assert {problem.part for problem in found.problems} == {"reference"}, str(found)
    return found


async def test_a_reference_that_agrees_answers_the_questions(box: NamespaceSandbox) -> None:
    asked = await proposed(box, offered(reference=""))
    assert isinstance(asked, SkillRefused)
    assert asked.questions
    found = await proposed(box, offered())
    assert isinstance(found, Admission), str(found)
    assert found.report["reference"]["agreed"] > 5
    assert kept_reference(found.report) == SLOW
    assert any("sorted([100, number]" in line for line in report_lines(found.report))
    assert "results of a reference agree" in report_summary(found.report)


async def test_a_reference_that_differs_is_a_question_that_names_the_call_but_no_result(box: NamespaceSandbox) -> None:
    found = await refused(box, offered(WRONG))
    assert "The code and the reference give different results for `add_one(100)`. Which of the two is right?" in str(
        found
    )
    assert "101" not in str(found)
    assert [(each.arguments, each.disputed) for each in found.questions] == [({"number": 100}, True)]
    assert found.disputed == (Prediction({"number": 100}, {"result": 101}),)


async def test_a_reference_that_was_changed_to_agree_requires_an_answer_by_the_author(box: NamespaceSandbox) -> None:
    pasted = SLOW.replace("number > 100", "number >= 100")
    disputed = [Prediction({"number": 100}, {"result": 101})]
    found = await proposed(box, offered(WRONG, pasted), disputed=disputed)
    assert isinstance(found, SkillRefused)
    assert found.questions
    assert not any(each.disputed for each in found.questions)


async def test_even_with_strong_tests_a_changed_reference_requires_an_answer(
    box: NamespaceSandbox,
) -> None:
    cases = {-7: -6, 0: 1, 1: 2, 2: 3, 99: 100, 100: 101, 101: 100, 102: 100}
    lines = "\n".join(f"    assert add_one({number}) == {result}" for number, result in cases.items())
    given = offered(tests=f"from add_one import add_one\n\n\ndef test_it():\n{lines}\n")
    disputed = [Prediction({"number": -1}, {"result": 5})]  # the reference gave 5, and now gives 0 as the code does
    found = await proposed(box, given, disputed=disputed)
    assert isinstance(found, SkillRefused)
    arguments = [each.arguments for each in found.questions]
    assert len(arguments) == 1
    assert arguments != [{"number": -1}]
    number = arguments[0]["number"]
    answer = Prediction(arguments[0], {"result": 100 if number > 100 else number + 1})
    found = await proposed(box, replace(given, expected=(answer,)), disputed=disputed)
    assert isinstance(found, Admission), str(found)


async def test_code_that_is_corrected_to_agree_with_its_reference_requires_no_answer(box: NamespaceSandbox) -> None:
    found = await proposed(box, offered(), disputed=[Prediction({"number": 100}, {"result": 101})])
    assert isinstance(found, Admission), str(found)


async def test_a_prediction_takes_precedence_over_a_reference_that_differs(
    box: NamespaceSandbox,
) -> None:
    reference = SLOW.replace("number > 100", "number >= 100")
    expected = (Prediction({"number": 100}, {"result": 101}),)
    found = await proposed(box, offered(reference=reference, expected=expected))
    assert isinstance(found, Admission), str(found)


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param(proposal(body=BODY).code, id="the_same_text"),
        pytest.param("def add_one(number):\n  if 100 < number: return 100\n  return number + 1\n", id="another_form"),
        pytest.param(
            "def other(x: int) -> int:\n    'Other words.'\n    if x > 100:\n        return 100\n    return x + 1\n\n\n"
            "def add_one(number):\n    return other(number)\n",
            id="behind_another_function",
        ),
    ],
)
async def test_a_copy_of_the_code_is_refused_as_a_reference(reference: str) -> None:
    with pytest.raises(SkillRefused, match="nearly the same program as the code"):
        check(offered(reference=reference), frozenset())


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("def add_one(number:\n", r"\[reference\] Syntax error in line 1"),
        ("def add_two(number):\n    return number + 2\n", "The reference has no top-level function `add_one`"),
        (
            "def add_one(value):\n    return sum([value, 1])\n",
            r"The reference takes \(value\), but the skill takes \(number\)",
        ),
        ("#" * 20_000, r"\[reference\] The source has 20,000 bytes"),
    ],
)
async def test_a_reference_that_cannot_be_used_is_refused_with_what_to_change(reference: str, said: str) -> None:
    with pytest.raises(SkillRefused, match=said):
        check(offered(reference=reference), frozenset())


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        pytest.param(
            "def add_one(number):\n    return len(range(number)) - 3\n",
            r"The reference fails the tests: they make the call `add_one\(1\)`, for which",
            id="wrong_for_the_tests",
        ),
        pytest.param(
            "def add_one(number):\n    raise Exception(number)\n", "The reference fails the tests", id="raises_always"
        ),
        pytest.param(
            "class Same:\n    def __eq__(self, other):\n        return True\n\n    def __hash__(self):\n        return 1\n\n\n"
            "def add_one(number):\n    return Same()\n",
            "The reference fails the tests",
            id="equals_everything",
        ),
        pytest.param(
            "class Same(int):\n    def __eq__(self, other):\n        return True\n\n    def __hash__(self):\n        return 1\n\n\n"
            "def add_one(number):\n    return Same(7)\n",
            "The reference fails the tests",
            id="number_that_equals_everything",
        ),
        pytest.param(
            "def add_one(number):\n    while True:\n        pass\n",
            r"The reference gives no result for `add_one\(1\)`, which the tests call",
            id="runs_for_ever",
        ),
        pytest.param(
            "def add_one(number):\n    while True:\n        try:\n            while True:\n                pass\n"
            "        except BaseException:\n            pass\n",
            r"The reference gives no result for `add_one\(1\)`, which the tests call",
            id="runs_for_ever_and_ignores_its_time_limit",
        ),
        pytest.param(
            "import os\n\n\ndef add_one(number):\n    os._exit(0)\n",
            r"The reference gives no result for `add_one\(1\)`, which the tests call",
            id="ends_its_process",
        ),
        pytest.param("while True:\n    pass\n\n\ndef add_one(number):\n    pass\n", "The reference cannot be imported", id="hangs"),
        pytest.param(
            "import os\nos.kill(os.getppid(), 9)\n\n\ndef add_one(number):\n    pass\n",
            "The reference gave no answers",
            id="ends_the_process_that_collects",
        ),
        pytest.param(
            "import sys\n\n\ndef add_one(number):\n    return sys.modules['add_one'].add_one(number)\n",
            "The reference fails the tests",
            id="calls_the_skill",
        ),
        pytest.param(
            "import sys\nfrom pathlib import Path\n\n\ndef add_one(number):\n"
            "    found = [p for p in Path('/').rglob('*.py') if 'return number + 1' in p.read_text() and str(p) != __file__]\n"
            "    run = getattr(sys.modules['builtins'], 'ev' + 'al')\n"
            "    return run(found[0].read_text().rpartition('return ')[2], {'number': number})\n",
            "The reference fails the tests|The reference gives no result",
            id="looks_for_the_skill_in_files",
        ),
        pytest.param(
            "import sys\n\n\ndef add_one(number):\n    frame = sys._getframe()\n    while frame:\n"
            "        for value in list(frame.f_locals.values()):\n"
            "            if isinstance(value, dict) and 'value' in value:\n                return value['value']\n"
            "        frame = frame.f_back\n    return None\n",
            "The reference fails the tests",
            id="looks_for_the_answer_on_the_stack",
        ),
    ],
)  # fmt: skip
async def test_a_reference_that_proves_nothing_is_refused(box: NamespaceSandbox, reference: str, said: str) -> None:
    with pytest.raises(SkillRefused, match=said):
        await admit(
            check(offered(WRONG, reference), frozenset()), box, seed=1, effort=replace(UNHURRIED, reference_s=2.0)
        )


async def test_a_reference_that_writes_a_forged_answer_is_refused(box: NamespaceSandbox) -> None:
    """It writes to every descriptor, which only damages its own answers."""
    reference = (
        "import os\n\n\ndef add_one(number):\n    for sink in range(3, 30):\n        try:\n"
        "            os.write(sink, b'{\"value\": 2}\\n' * 100)\n        except OSError:\n            pass\n    return 2\n"
    )
    found = await proposed(box, offered(WRONG, reference))
    assert isinstance(found, SkillRefused)


async def test_code_and_reference_agree_if_both_raise_an_exception(box: NamespaceSandbox) -> None:
    code = "if number < 0:\n        raise ValueError(number)\n    return number * number + (1 if number > 50 else 0)"
    reference = (
        "def add_one(number):\n    assert number >= 0\n    found = sum(number for _ in range(number))\n"
        "    while number > 50:\n        return found + 1\n    return found\n"
    )
    tests = "from add_one import add_one\n\n\ndef test_it():\n    assert add_one(3) == 9\n"
    found = await proposed(box, offered(code, reference, tests=tests))
    assert isinstance(found, Admission), str(found)


async def test_a_reference_is_stored_with_the_skill_and_used_in_its_readmission(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    async with opened_library(tmp_path, box, effort=UNHURRIED) as library:
        skill = await library.create(offered())
        assert (await library.proposal_of(skill)).reference == SLOW
        await library.readmit(skill)


async def test_a_reference_in_camel_case_is_renamed_with_the_skill(box: NamespaceSandbox) -> None:
    given = offered()
    camel = replace(
        given,
        name="addOne",
        code=given.code.replace("add_one", "addOne"),
        tests=given.tests.replace("add_one", "addOne"),
        reference=SLOW.replace("add_one", "addOne"),
    )
    assert isinstance(await proposed(box, camel), Admission)

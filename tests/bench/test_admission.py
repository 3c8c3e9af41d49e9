"""The parts of `knackbox bench admission`: problems, authors and their answers. Nothing is admitted here (SKILL-6)."""

import json
import random
from pathlib import Path

import pytest

from acquired_skills.model.parsed import ParsedProposal
from bench.admission.argument_shapes import call_text
from bench.admission.authors import AUTHORS, UNDECIDED, Asked, Author, wrong
from bench.admission.dialogue import AdmissionDialogue, ProposalOutcome, converse
from bench.admission.problems import EXAMPLE, FIRST, FULL, Problem, read_problems
from bench.admission.solutions import Answer, answers_of, examine
from bench.admission.summary import Measured, summarize
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import NoSandbox

pytestmark = pytest.mark.spec("SKILL-6")

LINE = {
    "id": "Toy/1",
    "prompt": "Write a function to find the larger number, or zero.",
    "entry_point": "larger",
    "code": "def larger(a, b):\n    return max(a, b, 0)\n",
    "tests": ["assert larger(1, 2) == 2", "assert larger(3, 1) == 3"],
    "test_imports": [],
    "tuples": False,
    "probe_inputs": [[1, 2], [3, 1], [-1, -2]],
}
TOY = Problem(LINE)


def author(kind: str, seed: int = 1) -> Author:
    return Author(kind, TOY, LINE["code"], NoSandbox(), random.Random(seed))


def test_problems_are_chosen_by_the_seed(tmp_path: Path) -> None:
    lines = [json.dumps({**LINE, "id": f"Toy/{i}"}) for i in range(20)]
    (tmp_path / "problems.jsonl").write_text("\n".join(lines))
    first, again, other = ([each.id for each in read_problems(tmp_path, 5, seed)] for seed in (1, 1, 2))
    assert first == again != other
    assert len(read_problems(tmp_path, None, 1)) == 20


@pytest.mark.parametrize(("tests", "cases"), [(FULL, 2), (FIRST, 1), (EXAMPLE, 1)])
def test_a_proposal_has_tests_of_the_chosen_strength(tests: str, cases: int) -> None:
    parsed = ParsedProposal.parse(TOY.proposal(LINE["code"], tests))
    assert parsed.proposal.tests.count("def test_") == cases
    assert (">>> larger(3, 1)" in parsed.proposal.code) == (tests == EXAMPLE)


def test_an_authors_calls_have_tuples_only_where_the_asserts_have_them() -> None:
    """A reference solution that sorts a list of pairs would fail if its author called it with a tuple of pairs."""
    line = {**LINE, "tuples": True, "tests": ["assert larger([(1, 2)], (3,)) == 2"]}
    asked = {"a": [[5, 6], [7, 8]], "b": [1, [2]]}
    assert call_text(Problem(line), asked) == "larger(a=[(5, 6), (7, 8)], b=(1, (2,)))"
    assert call_text(TOY, {"a": [1], "b": 2}) == "larger(a=[1], b=2)"


async def test_mutants_that_answer_a_probe_input_differently_are_broken() -> None:
    async with NamespaceSandbox() as box:
        reference, *mutants = await examine(TOY, box, 12, 1)
        calls = ["larger(-1, -2)", "larger(a=4, b=2)", "larger(None, 1)", "larger(1, 2) == nan", "print"]
        answers = await answers_of(TOY, LINE["code"], calls, box)
    assert not reference.broken
    assert list(reference.passes) == [True, True]
    assert any(each.broken and not all(each.passes) for each in mutants)
    assert any(each.broken and all(each.passes) for each in mutants)
    assert answers == [Answer("0"), Answer("4"), Answer(raised="TypeError"), Answer("False"), None]


@pytest.mark.parametrize("value", ["1", "True", "'text'", "[1, 2]", "(1,)", "None", "{'a': 1}", "1.5", "set()"])
def test_a_wrong_answer_differs_from_the_right_one(value: str) -> None:
    assert all(wrong(Answer(value), random.Random(seed)).value != value for seed in range(20))


async def test_authors_without_knowledge_give_what_is_offered_or_nothing() -> None:
    asked = [Asked("larger(1, 2)", (Answer("2"),)), Asked("larger(0, 0)")]
    assert await author("paste").answers(asked) == [Answer("2"), UNDECIDED]
    assert await author("silent").answers(asked) == [None, None]


@pytest.mark.parametrize("kind", AUTHORS)
async def test_nobody_replies_when_nothing_is_asked(kind: str) -> None:
    first = ProposalOutcome(False, 0.5, why="it has no tests")
    found = await converse(TOY.proposal(LINE["code"], FIRST), first, author(kind), 1)
    assert (found.attempts, found.questions, found.admitted) == ([first], 0, False)


def test_shares_of_broken_solutions_include_those_that_fail_the_tests() -> None:
    admitted, asked = ProposalOutcome(True, 1.0), ProposalOutcome(False, 2.0, (Asked("larger(0, 0)"),))
    rows = [
        Measured("Toy/1", FIRST, "truth", False, "", AdmissionDialogue([asked, admitted])),
        Measured("Toy/1", FIRST, "truth", True, "", AdmissionDialogue([admitted])),
        Measured("Toy/1", FIRST, "truth", True, "", None),
    ]
    (row,) = summarize(rows, 1)["rows"]
    assert (row["correct_at_once"], row["correct_after"]) == (0.0, 1.0)
    assert (row["broken"], row["broken_passing"], row["broken_after"], row["passing_after"]) == (2, 1, 0.5, 1.0)
    assert (row["questions_median"], row["rounds_mean"], row["seconds_median"]) == (1, 1, 3.0)

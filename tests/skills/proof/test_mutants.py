"""Mutants: which ones are made, and that tests that kill too few of them are not enough for admission."""

import ast
import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.admission import admit
from acquired_skills.proof.mutation.mutants import Mutant, make_mutants
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import proposal

pytestmark = pytest.mark.spec("SKILL-6")
QUICK = Effort(
    stub_test_s=0.5, test_s=1.0, total_s=20.0, enough=0.66, calls=0, every_gap=False
)  # asks nothing where the tests prove enough

EVERYTHING = '''
"""A module."""
LIMIT: int = 10


def work(items: list[int], text: str = "a1", *, deep: bool = False) -> object:
    """Work."""
    print("working")
    total = 0
    while total < LIMIT:
        total += 1
        if not deep:
            break
    for item in items:
        if item % 2 == 0 and item not in (4, 6):
            continue
        total -= item
    if total is None:
        raise ValueError("none at all", 1)
    kept = [abs(x) for x in items if x > 1]
    best = max(kept, default=0) if kept else -1
    return best, text[1:].upper(), sorted(kept, reverse=True), round(total / 2, 1), fetch(timeout=5)
'''


def changes(source: str, most: int = 1000, seed: int = 1) -> list[tuple[str, str]]:
    return [(each.before, each.after) for each in make_mutants(ast.parse(source), most, seed)]


@pytest.mark.parametrize(
    "change",
    [
        ("total < LIMIT", "total <= LIMIT"),
        ("total += 1", "total -= 1"),
        ("total += 1", "pass"),
        ("not deep", "deep"),
        ("break", "continue"),
        ("items", "list(items)[:1]"),
        ("item % 2 == 0 and item not in (4, 6)", "item % 2 == 0 or item not in (4, 6)"),
        ("item % 2 == 0 and item not in (4, 6)", "item not in (4, 6)"),
        ("item not in (4, 6)", "item in (4, 6)"),
        ("total is None", "False"),
        ("raise ValueError('none at all', 1)", "pass"),
        ("x > 1", "x >= 1"),
        ("x > 1", "True"),
        ("abs(x)", "x"),
        ("max(kept, default=0)", "min(kept, default=0)"),
        ("max(kept, default=0)", "max(kept)"),
        ("1:", ":"),
        ("text[1:].upper()", "text[1:].lower()"),
        ("sorted(kept, reverse=True)", "sorted(kept)"),
        ("round(total / 2, 1)", "round(total / 2)"),
        ("total / 2", "total * 2"),
        ("10", "11"),
        ("'a1'", "'a2'"),
        ("False", "True"),
    ],
)
def test_typical_mistakes_are_among_the_mutants(change: tuple[str, str]) -> None:
    assert change in changes(EVERYTHING)


def test_code_that_tests_should_not_check_is_not_mutated() -> None:
    touched = {before for before, _ in changes(EVERYTHING)}
    for arid in ("'A module.'", "'Work.'", "print('working')", "'working'", "'none at all'", "5"):
        assert arid not in touched
    assert ("fetch(timeout=5)", "fetch()") not in changes(EVERYTHING)
    assert not changes("pool = ThreadPoolExecutor(2)\nother = futures.ProcessPoolExecutor(max_workers=2)\n")
    assert changes("kept = pool(2)\n")


def test_every_mutant_is_valid_code_that_differs_from_the_original() -> None:
    made = len(changes(EVERYTHING))
    assert made > 60
    for index in range(made):
        tree = ast.parse(EVERYTHING)
        mutant = make_mutants(tree, 1000, 1)[index]
        mutant.make()
        compile(tree, "work.py", "exec")
        assert ast.unparse(tree) != ast.unparse(ast.parse(EVERYTHING)), (mutant.before, mutant.after)


@given(most=some.integers(0, 60), seed=some.integers(0, 1000))
def test_the_same_seed_gives_the_same_mutants_spread_over_all_lines(most: int, seed: int) -> None:
    tree = ast.parse(EVERYTHING)
    chosen, everything = make_mutants(tree, most, seed), make_mutants(tree, 1000, seed)
    again = make_mutants(copy.deepcopy(tree), most, seed)
    assert [told(each) for each in chosen] == [told(each) for each in again]
    assert len(chosen) == min(most, len(everything))
    parts = [range(node.lineno, (node.end_lineno or 0) + 1) for node in tree.body if isinstance(node, ast.FunctionDef)]
    for part in parts:
        lines = {each.line for each in everything if each.line in part}
        of_part = [each for each in chosen if each.line in part]
        assert len({each.line for each in of_part}) == min(len(of_part), len(lines))
    if most >= len({each.line for each in everything}):
        assert {each.line for each in chosen} == {each.line for each in everything}


@given(rows=some.integers(0, 300), most=some.integers(20, 100))
def test_a_long_table_does_not_use_up_the_mutants_of_a_function(rows: int, most: int) -> None:
    function = "def work(x: int) -> int:\n    y = x * 2 + 1\n    return y - 3 if y > 5 else y + 7\n"
    table = "TABLE = [\n" + "".join(f"    {n} * {n},\n" for n in range(rows)) + "]\n"
    alone = {each.before for each in make_mutants(ast.parse(function), 1000, 1)}
    chosen = make_mutants(ast.parse(table + function), most, 1)
    of_function = [each for each in chosen if each.line > rows + 2]
    assert {each.before for each in of_function} <= alone
    assert len({each.line for each in of_function}) == 2
    if rows + 2 > most:
        assert len(of_function) >= min(most // 2, len(alone))


def test_an_async_function_is_mutated_like_any_other() -> None:
    body = "work(x: int) -> int:\n    return x + 1 if x > 5 else 0\n"
    assert changes(f"async def {body}") == changes(f"def {body}") != []


def told(mutant: Mutant) -> tuple[int, str, str]:
    return mutant.line, mutant.before, mutant.after


BODY = "if number > 100:\n        return 100\n    return number + 1"
HEAD = "from add_one import add_one\n\n\n"
WEAK = HEAD + "def test_adds():\n    assert add_one(1) == 2\n"
STRONG = WEAK + "\n\ndef test_ends():\n    assert (add_one(100), add_one(101), add_one(200)) == (101, 100, 100)\n"


@pytest.mark.asyncio(loop_scope="module")
class TestAtTheGate:
    async def test_weak_tests_are_refused_with_calls_that_kill_more_mutants(self, box: NamespaceSandbox) -> None:
        with pytest.raises(SkillRefused) as refused:
            await admit(ParsedProposal.parse(proposal(body=BODY, tests=WEAK)), box, seed=1, effort=QUICK)
        text = str(refused.value)
        assert "[expected] The tests kill" in text
        assert "66% is required" in text
        assert {"number": 100} in [question.arguments for question in refused.value.questions]

    async def test_strong_tests_are_admitted_and_the_report_counts_the_killed_mutants(
        self, box: NamespaceSandbox
    ) -> None:
        found = await admit(ParsedProposal.parse(proposal(body=BODY, tests=STRONG)), box, seed=1, effort=QUICK)
        met = found.report["mutants"]
        assert met["killed"] == met["made"] > 8
        assert met["survived"] == []

    async def test_no_mutants_are_made_if_the_threshold_is_0(self, box: NamespaceSandbox) -> None:
        found = await admit(
            ParsedProposal.parse(proposal(body=BODY, tests=WEAK)), box, seed=1, effort=replace(QUICK, threshold=0.0)
        )
        assert found.report["mutants"] == {}

    async def test_a_mutant_that_hangs_or_ends_the_process_is_killed(self, box: NamespaceSandbox) -> None:
        body = "import os\n    while number < 0:\n        number += 1\n    if number == 77:\n        os._exit(3)\n    return number + 1"
        tests = (
            HEAD
            + "def test_adds():\n    assert (add_one(1), add_one(-3), add_one(76), add_one(78)) == (2, 1, 77, 79)\n"
        )
        found = await admit(ParsedProposal.parse(proposal(body=body, tests=tests)), box, seed=1, effort=QUICK)
        left = {each["before"] for each in found.report["mutants"]["survived"]}
        assert "number += 1" not in left
        assert found.report["mutants"]["killed"] > len(found.report["mutants"]["survived"])

    async def test_when_the_time_is_up_the_mutants_tried_so_far_decide(self, box: NamespaceSandbox) -> None:
        none_met = replace(QUICK, mutants_s=0.0)
        met = (await admit(ParsedProposal.parse(proposal(body=BODY, tests=WEAK)), box, seed=1, effort=none_met)).report[
            "mutants"
        ]
        assert (met["made"] > 8, met["killed"], met["survived"]) == (True, 0, [])

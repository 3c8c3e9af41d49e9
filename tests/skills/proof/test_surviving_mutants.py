"""Surviving mutants: if a call distinguishes one from the skill, it becomes a question; otherwise it does not count."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.admission import admit
from acquired_skills.proof.similar_calls import similar_calls
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import UNHURRIED, proposal

pytestmark = pytest.mark.spec("SKILL-6")
EFFORT = replace(UNHURRIED, enough=0.8)
HEAD = "from add_one import add_one\n\n\n"
WEAK = HEAD + "def test_adds():\n    assert add_one(1) == 2\n"
ENOUGH = WEAK + "\n\ndef test_more():\n    assert (add_one(0), add_one(-4), add_one(9)) == (1, -3, 10)\n"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(lambda each: {"tuple": each}),
    max_leaves=6,
)
CALLS = st.lists(
    st.builds(
        lambda arguments, named: {"arguments": arguments, "named": named},
        st.lists(VALUES, max_size=3),
        st.dictionaries(st.sampled_from("ab"), VALUES),
    ),
    max_size=3,
)


@given(CALLS, st.integers(0, 50), st.integers())
def test_similar_calls_are_new_bounded_of_the_same_form_and_reproducible(
    calls: list[dict[str, Any]], most: int, seed: int
) -> None:
    found = similar_calls(calls, ParsedSource.parse("LIMIT = 7\n"), most, seed)
    assert found == similar_calls(calls, ParsedSource.parse("LIMIT = 7\n"), most, seed)
    texts = [json.dumps(each, sort_keys=True) for each in found]
    assert len(set(texts)) == len(texts) <= most
    assert not set(texts) & {json.dumps(each, sort_keys=True) for each in calls}
    forms = [(len(each["arguments"]), sorted(each["named"])) for each in calls]
    assert all((len(each["arguments"]), sorted(each["named"])) in forms for each in found)


def test_similar_calls_include_edge_cases_and_constants_of_the_code() -> None:
    code = "def f(n: int, words: list[str]) -> int:\n    return 3 if n > 100 else len(words)\n"
    found = similar_calls([{"arguments": [5, ["ab"]], "named": {}}], ParsedSource.parse(code), 200, 1)
    numbers = {each["arguments"][0] for each in found}
    assert {4, 6, 0, -5, 99, 100, 101} <= numbers
    lists = [each["arguments"][1] for each in found]
    assert all(each in lists for each in ([], ["ab", "ab"], [""], ["AB"]))


@pytest.mark.asyncio(loop_scope="module")
class TestAtTheGate:
    async def test_a_gap_in_the_tests_becomes_a_question_without_the_result(self, box: NamespaceSandbox) -> None:
        body = "if number > 100:\n        return 100\n    return number + 1"
        with pytest.raises(SkillRefused) as refused:
            await admit(ParsedProposal.parse(proposal(body=body, tests=WEAK)), box, seed=1, effort=EFFORT)
        assert {"number": 100} in [question.arguments for question in refused.value.questions]
        assert '{"arguments": {"number": 100}, "result": …}' in str(refused.value)

    async def test_equivalent_mutants_do_not_count_against_the_tests(self, box: NamespaceSandbox) -> None:
        body = "sign = 1 if number >= 0 else -1\n    return sign * abs(number) + 1"  # for 0 both signs are correct, so > 0 and >= 1 are equivalent
        met = (await admit(ParsedProposal.parse(proposal(body=body, tests=ENOUGH)), box, seed=1, effort=EFFORT)).report[
            "mutants"
        ]
        assert met["equivalent"] == 2
        assert met["met"] + met["equivalent"] <= met["made"]
        assert ">= 0" not in str(met["survived"])

    async def test_an_order_that_no_test_states_is_asked_about(self, box: NamespaceSandbox) -> None:
        code = (
            "def add_one(scores: dict[str, int], least: int) -> list[str]:\n"
            '    """Return the names with at least `least` points, the best score first."""\n'
            "    found = [name for name, points in scores.items() if points >= least]\n"
            "    return sorted(found, key=lambda name: (scores[name], name))\n"  # the worst score first
        )
        tests = HEAD + (
            "def test_some():\n    assert sorted(add_one({'a': 3, 'b': 5, 'c': 1}, 3)) == ['a', 'b']\n\n\n"
            "def test_all():\n    assert sorted(add_one({'x': 7, 'y': 2, 'z': 9}, 2)) == ['x', 'y', 'z']\n\n\n"
            "def test_none():\n    assert add_one({'p': 1}, 2) == []\n\n\n"
            "def test_one():\n    assert sorted(add_one({'p': 1, 'q': 4, 'r': 3, 's': 2}, 3)) == ['q', 'r']\n"
        )
        offered = replace(proposal(tests=tests), code=code, description="Names by score, best first.")
        with pytest.raises(SkillRefused) as refused:
            await admit(ParsedProposal.parse(offered), box, seed=1, effort=UNHURRIED)
        assert any(len(question.arguments["scores"]) > 1 for question in refused.value.questions)

    async def test_code_that_hides_its_mutations_gains_nothing(self, box: NamespaceSandbox) -> None:
        """It runs its own unchanged file again, and has much other code that does nothing."""
        body = (
            "import pathlib\n    if __name__ == 'anew':\n        return number + 1\n    names = {'__name__': 'anew'}\n"
            "    source = pathlib.Path(__file__).read_text()\n    exec(source, names)\n    unused = number * 3\n"
            "    other = unused + 7 - number\n    more = other < unused\n    return names['add_one'](number)"
        )
        with pytest.raises(SkillRefused, match=r"The tests kill \d+ of 30 mutants"):
            await admit(ParsedProposal.parse(proposal(body=body, tests=WEAK)), box, seed=1, effort=EFFORT)

    async def test_calls_that_hang_or_end_the_process_do_not_delay_admission(self, box: NamespaceSandbox) -> None:
        body = (
            "import os\n    while number < -4:\n        pass\n    if number == 10:\n        os._exit(3)\n"
            "    return number + 1"
        )
        met = (
            await admit(
                ParsedProposal.parse(proposal(body=body, tests=ENOUGH)),
                box,
                seed=1,
                effort=replace(EFFORT, threshold=0.1),
            )
        ).report["mutants"]
        assert met["killed"] > 0

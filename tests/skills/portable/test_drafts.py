"""Functions in the scripts of instructions, and drafts of skills made from them. The scripts are not run."""

import ast
from typing import Any

import pytest

from acquired_skills.model.proposal import ProposalProblem, SkillRefused
from acquired_skills.portable.drafts import SkillDraft, origin_of
from acquired_skills.portable.script_functions import find_function, script_functions

pytestmark = pytest.mark.spec("SKILL-24")

SCRIPT = '''#!/usr/bin/env python3
# /// script
# dependencies = ["six"]
# ///
"""Tools for texts."""
import re
import sys
from collections import Counter
from decimal import Decimal

from helpers import count

# Words that are left out.
STOP = {"the", "a"}
STOP.add("an")
UNUSED = open("/tmp/must-not-exist", "w")


def _clean(text):
    return re.sub(r"[^a-z0-9 ]", "", text.lower())


def slugify(text: str, sep: str = "-") -> str:
    """Turn a title into a part of an address.

    >>> slugify("Hello World")
    'hello-world'
    """
    return sep.join(word for word in _clean(text).split() if word not in STOP)


def common(words: list[str], most: int) -> list[tuple[str, int]]:
    """Return the most common words."""
    return Counter(words).most_common(most)


def half(amount: Decimal) -> Decimal:
    """Halve an amount of money."""
    return amount / 2


def clamp(number, low=0, high=10):
    """Keep a number between two limits."""
    return max(low, min(number, high))


def counted(text: str) -> int:
    """Count words."""
    return count(text)


def everything(*texts):
    """Join texts."""


def nothing() -> int:
    """Return one."""
    return 1


def bare(number: int) -> int:
    return number


def _private(text: str) -> str:
    """Not for others."""


def main() -> None:
    print(slugify(sys.argv[1]))


if __name__ == "__main__":
    main()
'''
FILES = {
    "SKILL.md": b"",
    "scripts/text.py": SCRIPT.encode(),
    "scripts/helpers.py": b'def count(text: str) -> int:\n    """Count words."""\n    return len(text.split())\n',
    "scripts/test_text.py": b'def probe(text: str) -> str:\n    """A test."""\n',
    "scripts/broken.py": b"def (",
}


def draft(name: str) -> SkillDraft:
    return SkillDraft.of("text-tools", find_function(script_functions(FILES), name))


def filled(name: str, *calls: dict[str, Any]) -> SkillDraft:
    return SkillDraft.parse({**draft(name).value(), "calls": list(calls)})


def test_public_functions_are_listed_with_the_reason_why_one_cannot_be_a_skill() -> None:
    assert {(each.file, each.name): each.why_not for each in script_functions(FILES)} == {
        ("scripts/helpers.py", "count"): "",
        ("scripts/text.py", "slugify"): "",
        ("scripts/text.py", "common"): "",
        ("scripts/text.py", "half"): "",
        ("scripts/text.py", "clamp"): "",
        ("scripts/text.py", "counted"): "it uses other files of the instructions",
        ("scripts/text.py", "everything"): "it takes arguments without names",
        ("scripts/text.py", "nothing"): "it takes no arguments",
        ("scripts/text.py", "bare"): "it has no docstring",
    }


@pytest.mark.parametrize("name", ["counted", "missing", "scripts/helpers.py:slugify"])
def test_a_function_that_cannot_be_drafted_is_refused(name: str) -> None:
    with pytest.raises(LookupError, match=r"cannot become|no function"):
        find_function(script_functions(FILES), name)


def test_a_name_that_occurs_in_two_files_must_be_given_with_its_file() -> None:
    functions = script_functions({**FILES, "more/text.py": SCRIPT.encode()})
    with pytest.raises(LookupError, match=r"more/text.py:slugify or scripts/text.py:slugify"):
        find_function(functions, "slugify")
    assert find_function(functions, "more/text.py:slugify").file == "more/text.py"


def test_the_code_of_a_draft_is_the_function_with_everything_that_it_needs() -> None:
    code = draft("slugify").code
    names = [each.name for each in ast.parse(code).body if isinstance(each, ast.FunctionDef)]
    assert names == ["_clean", "slugify"]
    assert code.startswith('# /// script\n# dependencies = ["six"]\n# ///\n')
    assert "# Words that are left out.\nSTOP = " in code
    assert 'STOP.add("an")' in code
    for absent in ("UNUSED", "Counter", "sys", "helpers", "__main__"):
        assert absent not in code


def test_calls_are_proposed_from_examples_and_annotations_without_results() -> None:
    calls = {name: draft(name).calls for name in ("slugify", "common", "half", "clamp")}
    assert all(set(each) == {"arguments"} for found in calls.values() for each in found)
    assert {"arguments": {"text": ""}} in calls["slugify"]
    assert {"arguments": {"text": "Hello World"}} not in calls["slugify"]  # the docstring states its result
    assert {"words": [], "most": 7} in [each["arguments"] for each in calls["common"]]
    assert [each["arguments"] for each in calls["half"]] == [{"amount": "2.50"}]
    assert calls["clamp"] == ()  # the type of `number` is not known


def test_exact_results_become_typed_tests_and_other_checks_become_predictions() -> None:
    proposal = filled(
        "common",
        {"arguments": {"words": ["a", "b", "a"], "most": 1}, "result": [["a", 2]]},
        {"arguments": {"words": ["a"], "most": "x"}, "raises": "TypeError"},
        {"arguments": {"words": ["a", "b"], "most": 2}, "length": 2},
        {"arguments": {"words": [], "most": 2}},
    ).proposal({"by": "test"})
    assert "assert common(words=['a', 'b', 'a'], most=1) == [('a', 2)]" in proposal.tests
    assert "with pytest.raises(TypeError):\n        common(words=['a'], most='x')" in proposal.tests
    assert [each.checks for each in proposal.expected] == [{"length": 2}]
    assert proposal.tests.count("def test") == 2
    money = filled("half", {"arguments": {"amount": "3.00"}, "result": "1.50"}).proposal({})
    assert "from decimal import Decimal" in money.tests
    assert "assert half(amount=Decimal('3.00')) == Decimal('1.50')" in money.tests


def test_a_dispute_does_not_show_the_result_of_the_code() -> None:
    wrong = filled("slugify", {"arguments": {"text": "A b"}, "result": "a-b"})
    failed = ProposalProblem("green", "test_call_1 fails:\nassert 'b' == 'a-b'\nCorrect the code or the test.")
    other = ProposalProblem("green", "test_docstring_example_1 fails:\n…")
    hidden = wrong.without_results(SkillRefused("slugify", [failed, other])).problems
    assert "You expect result 'a-b' from `slugify(text='A b')`; the code gives another result." in hidden[0].text
    assert "'b' ==" not in hidden[0].text
    assert hidden[1] == other


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([], "A draft must be an object"),
        ({**draft("slugify").value(), "calls": "x"}, "must be a list of calls"),
        ({**draft("slugify").value(), "calls": [{"arguments": {}, "better": 1}]}, "is not a check"),
    ],
)
def test_an_invalid_draft_is_refused(found: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SkillDraft.parse(found)


def test_a_draft_without_an_exact_result_is_refused() -> None:
    with pytest.raises(ValueError, match="Add one of them to at least one call"):
        filled("slugify", {"arguments": {"text": "a"}, "length": 1}).proposal({})


def test_the_origin_says_whether_the_function_was_changed() -> None:
    code = draft("slugify").code
    origin = origin_of("text-tools", FILES, "scripts/text.py", "slugify", code)
    assert origin.startswith("text-tools/scripts/text.py, sha256 ")
    assert origin_of("text-tools", FILES, "scripts/text.py", "slugify", f"# kept\n{code}") == origin
    changed = code.replace("not in STOP", "in STOP")
    assert origin_of("text-tools", FILES, "scripts/text.py", "slugify", changed) == f"{origin}, changed"
    with pytest.raises(ValueError, match=r"no function `slugify` in 'scripts/helpers.py'"):
        origin_of("text-tools", FILES, "scripts/helpers.py", "slugify", code)

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.model.names import folder_name, name_problems, skill_name
from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.script_block import ScriptBlock
from acquired_skills.proof.static_checks import MAX_CODE_BYTES, check
from sandbox.contract import Destination
from tests.skills.parts import STATIC, proposal

pytestmark = pytest.mark.spec("SKILL-2")


def problems(offered: Proposal, allowed: frozenset[Destination] = frozenset()) -> tuple[ProposalProblem, ...]:
    try:
        check(offered, STATIC, allowed)
    except SkillRefused as refused:
        return refused.problems
    return ()


def refusals(**changes: object) -> str:
    return "\n".join(f"[{one.part}] {one.text}" for one in problems(proposal(**changes)))


def test_a_valid_proposal_is_parsed() -> None:
    offered = proposal()
    parsed = check(offered, STATIC)
    assert parsed == ParsedProposal(offered, parsed.code, parsed.tests, ScriptBlock())
    assert (parsed.code.text, parsed.tests.text) == (offered.code, offered.tests)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Roman", "lower-case"),
        ("1st", "begin with a letter"),
        ("a", "2 to 63"),
        ("a" * 64, "2 to 63"),
        ("roman-numeral", "lower-case"),
        ("römisch", "lower-case"),
        ("two__words", "doubled or trailing underscore"),
        ("trailing_", "doubled or trailing underscore"),
        ("lambda", "keyword"),
        ("match", "keyword"),
        ("json", "standard library, which a skill would hide: choose another name, such as `json_skill`"),
        ("execute", "built-in tool, which a skill cannot replace: choose another name, such as `execute_skill`"),
        ("test_things", "reserved by pytest, the box or Knackbox: choose another name, such as `things_skill`"),
        ("conftest", "reserved by pytest"),
        ("pydantic", "installed Python package"),
        ("", "2 to 63"),
        ("a\nb", "2 to 63"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_with_what_to_change(name: str, says: str) -> None:
    problems = name_problems(name, STATIC)
    assert problems
    assert says in " ".join(problems)


@given(st.from_regex(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", fullmatch=True).filter(lambda name: 2 <= len(name) <= 63))
def test_folder_names_and_skill_names_correspond(name: str) -> None:
    assert skill_name(folder_name(name)) == name


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("", "empty"),
        ("def add_one(number: int) -> int\n    return 1", "line 1"),
        ("x = 1", "no top-level function `add_one`"),
        ("class add_one:\n    'Doc.'\n", "function `add_one`, but a class of that name"),
        ("class AddOne:\n    'Doc.'\n", "but a class `AddOne` (a tool must be a function, which may use the class)"),
        ("def other(n):\n    'Doc.'\n    add_one = n\n", "function `add_one` (found: `other`)"),
        ("add_one = lambda n: n + 1\n", "but a lambda of that name"),
        ("if True:\n    def add_one(n):\n        'Doc.'\n", "but a nested function of that name in line 2"),
        ("def other(number: int):\n    'Doc.'\n", "(found: `other`)"),
        ("def add_one(n: int):\n    'Doc.'\n\ndef add_one(n: int):\n    'Doc.'\n", "defined 2 times, in lines 1, 4"),
        ("def add_one(n: int):\n    return n\n", "no docstring"),
        ("def add_one(*numbers: int):\n    'Doc.'\n", "Write `def add_one(numbers: list[int])`"),
        ("def add_one(**named: int):\n    'Doc.'\n", "Write `def add_one(*, named: dict[str, int])`"),
        ("#" * (MAX_CODE_BYTES + 1), "bytes"),
        ("a\0b", "code"),
        ("(" * 5000 + ")" * 5000, "code"),
        (f"def add_one(n: int):\n    'Doc.'\n    return {' + '.join(['n'] * 200)}\n", "Line 3 is nested more than 100"),
    ],
)
def test_code_that_cannot_be_a_skill_is_refused_with_what_to_change(code: str, says: str) -> None:
    assert says in refusals(code=code)


HELPERS = """from typing import overload


class Parser:
    pass


def double(number: int) -> int:
    return 2 * number


@overload
def add_one(number: int) -> int: ...
@overload
def add_one(number: float) -> float: ...
"""


@pytest.mark.parametrize("name", ["JSON", "Execute", "_pydantic"])
def test_a_name_that_clashes_in_snake_case_is_refused(name: str) -> None:
    found = problems(proposal(name))
    assert [one.part for one in found] == ["name"]
    assert f"such as `{name.lower().strip('_')}_skill`" in found[0].text


def test_a_missing_type_hint_is_accepted() -> None:
    assert refusals(code="def add_one(n, m: int = 1, k=1):\n    'Doc.'\n    return n + m + k\n") == ""


def test_helpers_need_no_leading_underscore() -> None:
    assert refusals(code=HELPERS + proposal().code) == ""


@pytest.mark.parametrize(
    ("tests", "says"),
    [
        ("def test_x():\n    assert True\n", "from add_one import add_one"),
        ("from add_one import add_one\n", "There is no test"),
        ("def test_x(:\n", "line 1"),
        (" ", "empty"),
    ],
)
def test_tests_that_cannot_prove_anything_are_refused(tests: str, says: str) -> None:
    found = problems(Proposal("add_one", "Adds one to a number.", proposal().code, tests))
    assert any(one.part == "tests" and says in one.text for one in found)


BLOCK = """# /// script
# dependencies = ["Add.One>=1"]
# [tool.knackbox]
# destinations = ["a.example:443", "b.example:443"]
# ///
"""


@pytest.mark.spec("BOX-10")
def test_a_destination_the_operator_has_not_allowed_is_refused_with_the_setting_to_change() -> None:
    code = BLOCK.replace("Add.One>=1", "six") + proposal().code
    a, b = Destination("a.example", 443), Destination("b.example", 443)
    (problem,) = problems(proposal(code=code), frozenset({a}))
    assert problem.part == "destinations"
    assert "connects to b.example:443, which" in problem.text
    assert "(allowed: a.example:443)" in problem.text
    assert '`allow = ["a.example:443", "b.example:443"]` in `[egress]`' in problem.text
    assert problems(proposal(code=code), frozenset({a, b})) == ()
    assert "(allowed: none)" in refusals(code=code)


def test_an_invalid_block_is_one_problem() -> None:
    (problem,) = problems(proposal(code="# /// script\n# dependencies = [\n# ///\n" + proposal().code))
    assert problem.part == "code"
    assert "not TOML" in problem.text


def test_a_skill_cannot_have_the_name_of_its_dependency() -> None:
    found = refusals(code=BLOCK + proposal().code)
    assert "[name] `add_one` is also the name of a dependency" in found


def test_descriptions_examples_and_times_have_limits() -> None:
    assert "too short" in refusals(description="Adds.")
    assert "1024" in refusals(description="x" * 2000)
    assert "Example 2 is empty" in refusals(examples=("add one", ""))
    assert "keep the best" in refusals(examples=tuple(map(str, range(100))))
    assert "[description]" in refusals(description="Adds one\x1b[2J to a number.")
    assert "U+001B: remove it" in refusals(examples=("add\x1b one",))
    assert "timeout_s" in refusals(timeout_s=0.0)


def test_all_problems_are_reported_at_once() -> None:
    code = "async def add__öne(n, *rest):\n    pass\n"
    found = problems(Proposal("add__öne", "short", code, "def test_x(): pass\n"))
    assert {one.part for one in found} == {"name", "description", "code", "tests"}
    assert len(found) >= 5


@pytest.mark.spec("SKILL-1")
def test_reading_a_proposal_does_not_run_it(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    bomb = f"open({str(trace)!r}, 'w').close()\n"
    check(proposal(code=bomb + proposal().code, tests=bomb + proposal().tests), STATIC)
    assert not trace.exists()


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=80), st.text(max_size=80))
def test_the_checks_handle_any_text(code: str, tests: str, name: str, description: str) -> None:
    assert problems(Proposal(name, description, code, tests))


def test_imports_are_found_at_any_place() -> None:
    source = "import os.path, numpy as np\nfrom pandas.api import x\nfrom . import y\ndef f():\n    import json\n"
    assert ParsedSource.parse(source).imports == {"os", "numpy", "pandas", "json"}
    assert ast.parse(source)


@pytest.mark.spec("GATE-1")
def test_predictions_may_nest_57_lists_and_objects() -> None:
    def nested(levels: int) -> Prediction:
        value: object = 1
        for _ in range(levels):
            value = [value]
        return Prediction({"number": value}, {"result": 1})

    assert refusals(expected=(nested(57),)) == ""
    assert refusals(expected=(nested(58),)) == "[expected] A prediction is nested too deeply. Use simpler arguments."

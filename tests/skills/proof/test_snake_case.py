"""Proposals get snake_case names. No proposal is run here."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.model.names import PATTERN
from acquired_skills.model.proposal import Proposal
from acquired_skills.proof.snake_case import in_snake_case, snake_case

pytestmark = pytest.mark.spec("SKILL-2")

CODE = 'def addAll(values):\n    """Add."""\n    return sum(values)'
BODY = "\n\ndef test_sum():\n    assert {call}([1, 2]) == 3\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("addAll", "add_all"),
        ("AddAll", "add_all"),
        ("parseHTTPResponse", "parse_http_response"),
        ("toJSON", "to_json"),
        ("base64Text", "base64_text"),
        ("MAX", "max"),
        ("add-all", "add_all"),
        ("add all", "add_all"),
        ("two__words_", "two_words"),
        ("_private", "private"),
        ("add_all", "add_all"),
        ("römisch", "römisch"),
        ("", ""),
        ("a\nb", "a\nb"),
    ],
)
def test_a_name_is_converted_to_snake_case(name: str, expected: str) -> None:
    assert snake_case(name) == expected


@given(st.from_regex(PATTERN, fullmatch=True).filter(lambda name: "__" not in name and not name.endswith("_")))
def test_a_snake_case_name_is_not_changed(name: str) -> None:
    assert snake_case(name) == name


@pytest.mark.parametrize(
    ("imported", "call", "expected"),
    [
        ("from addAll import addAll", "addAll", "from add_all import add_all as addAll"),
        ("from add_all import addAll", "addAll", "from add_all import add_all as addAll"),
        ("from addAll import addAll as f", "f", "from add_all import add_all as f"),
        ("from addAll import (\n    addAll,\n    other,\n)", "addAll", "from add_all import add_all as addAll, other"),
        ("from addAll import *", "addAll", "from add_all import *; from add_all import add_all as addAll"),
        ("import os; é = 1; import addAll", "addAll.addAll", "import os; é = 1; import add_all as addAll"),
        ("import addAll as m, os", "m.addAll", "import add_all as m, os"),
        ("import add_all", "add_all.addAll", "import add_all"),
    ],
)
def test_the_tests_may_import_either_name(imported: str, call: str, expected: str) -> None:
    tests = imported + BODY.format(call=call)
    for name in ("addAll", "add_all"):
        changed, note = in_snake_case(Proposal(name, "Adds numbers.", CODE, tests))
        assert changed.name == "add_all"
        assert changed.code == f"{CODE}\n\n\nadd_all = addAll  # the name of the skill\n"
        used = call.replace(".addAll", ".add_all")
        assert changed.tests == expected + BODY.format(call=used)
        assert "named `add_all`, an alias of `addAll`" in note


def test_an_alias_in_the_code_is_used() -> None:
    code = CODE + "\n\nadd_all = addAll\n"
    tests = "from add_all import add_all" + BODY.format(call="add_all")
    changed, _ = in_snake_case(Proposal("add_all", "Adds numbers.", code, tests))
    assert (changed.code, changed.tests) == (code, tests)


def test_only_the_name_changes_if_the_function_is_in_snake_case() -> None:
    code = CODE.replace("addAll", "add_all")
    tests = "from add_all import add_all" + BODY.format(call="add_all")
    changed, note = in_snake_case(Proposal("add-all", "Adds numbers.", code, tests))
    assert (changed.name, changed.code, changed.tests) == ("add_all", code, tests)
    assert note == "Skill names are in snake_case, so this skill is named `add_all`."


def test_no_alias_is_made_for_a_keyword() -> None:
    offered = Proposal("Lambda", "Adds numbers.", CODE.replace("addAll", "Lambda"), "from Lambda import Lambda")
    assert in_snake_case(offered) == (offered, "")


def test_nothing_changes_without_one_function_of_that_name() -> None:
    for code in (
        CODE.replace("addAll", "total"),
        CODE.replace("addAll", "_add_all"),
        CODE + "\n\n" + CODE.replace("addAll", "AddAll"),
        "def x(:\n",
    ):
        offered = Proposal("add_all", "Adds numbers.", code, "from addAll import addAll" + BODY.format(call="addAll"))
        assert in_snake_case(offered) == (offered, "")


@given(st.text(max_size=200), st.sampled_from(["addAll", "add_all", "add-all"]))
def test_changed_tests_are_valid_python_if_the_original_tests_were(text: str, name: str) -> None:
    tests = f"from addAll import addAll\nSOME = {text!r}\nimport addAll"
    changed, _ = in_snake_case(Proposal(name, "Adds numbers.", CODE, tests))
    assert [type(node) for node in ast.parse(changed.tests).body] == [ast.ImportFrom, ast.Assign, ast.Import]
    assert repr(text) in changed.tests

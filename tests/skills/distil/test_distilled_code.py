"""How a program is written as a function: which literals become parameters, and what the function returns."""

import ast
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquired_skills.distil.function_code import FunctionText, NotDistillable, function_code
from acquired_skills.distil.literals import literals_of, shape_of
from acquired_skills.distil.parameters import choose_parameters
from acquired_skills.distil.request_words import skill_name_for
from acquired_skills.model.script_block import read_script_block

pytestmark = pytest.mark.spec("CODE-8")

PROGRAM = """
from knackbox import tools
city = "Oslo"
limit = 3
rows = tools.search_rows(place=city, kind="open", most=limit)
f"{len(rows)} in {city}: " + ", ".join(sorted(rows)[:limit])
"""


def chosen(program: str, request: str, *similar: str) -> dict[str, Any]:
    parameters = choose_parameters(ast.parse(program), request, [ast.parse(each) for each in similar])
    return {each.name: each.value for each in parameters}


def written(program: str, request: str = "") -> str:
    tree = ast.parse(program)
    text = FunctionText("the_skill", "Do it.", ["search_rows"])
    return function_code(tree, choose_parameters(tree, request, []), text)


class Recorded:
    """Tools that return what they were asked."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda **given: [f"{name} {value}" for value in given.values()]


def run(code: str, **arguments: Any) -> Any:
    """Run code that this test wrote itself."""
    names: dict[str, Any] = {"tools": Recorded()}
    exec(compile(code.replace("from knackbox import tools", ""), "skill", "exec"), names)
    return names["the_skill"](**arguments)


def test_literals_that_the_request_contains_become_parameters() -> None:
    assert chosen(PROGRAM, "List up to 3 open rows in Oslo") == {"city": "Oslo", "limit": 3, "kind": "open"}
    assert chosen(PROGRAM, "List the rows of oslo") == {"city": "Oslo"}
    assert chosen(PROGRAM, "List rows of 13 places") == {}


def test_literals_that_differ_in_another_run_become_parameters() -> None:
    other = PROGRAM.replace('"Oslo"', '"Rome"')
    assert chosen(PROGRAM, "Do it again", other) == {"city": "Oslo"}
    [parameter] = choose_parameters(ast.parse(PROGRAM), "Do it again", [ast.parse(other)])
    assert parameter.why == "it was 'Rome' in another run"


def test_equal_literals_that_differ_in_the_same_way_become_one_parameter() -> None:
    program = "print('a.txt'); print('a.txt'); print('b.txt')"
    other = "print('x.txt'); print('x.txt'); print('y.txt')"
    assert list(chosen(program, "", other).values()) == ["a.txt", "b.txt"]


def test_programs_have_the_same_shape_if_only_literals_differ() -> None:
    assert shape_of(ast.parse(PROGRAM)) == shape_of(ast.parse(PROGRAM.replace("Oslo", "Rome").replace("3", "4")))
    assert shape_of(ast.parse(PROGRAM)) != shape_of(ast.parse(PROGRAM.replace("sorted", "list")))
    assert shape_of(ast.parse("x = 'a'")) != shape_of(ast.parse("x = 1"))


@given(st.text(max_size=20), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
def test_any_literals_leave_the_shape_and_the_number_of_literals_unchanged(text: str, whole: int, real: float) -> None:
    program = f"a = {text or 'x'!r}\nb = {abs(whole)!r}\nc = {abs(real)!r}\nf(a, b, c, key={text or 'x'!r})"
    assert shape_of(ast.parse(program)) == shape_of(ast.parse("a = 'x'\nb = 1\nc = 1.5\nf(a, b, c, key='x')"))
    assert len(literals_of(ast.parse(program))) == 4


def test_the_names_of_tools_keys_and_parts_of_f_strings_are_no_parameters() -> None:
    program = "tools['weather.now'](city='Oslo')['degrees']\nf'Oslo {x}'\n{'Oslo': 1}"
    assert [each.value for each in literals_of(ast.parse(program))] == ["Oslo", 1]


def test_a_name_of_the_program_is_not_hidden_by_a_parameter() -> None:
    program = "text = tools.read(path='a.txt')\nsum(n for n in text if n == 'Oslo')\npath = 1\npath"
    assert chosen(program, "Sum Oslo in a.txt") == {"given_path": "a.txt", "given_n": "Oslo"}


def test_the_function_gives_what_the_program_gave_for_other_arguments() -> None:
    code = written(PROGRAM, "List up to 3 open rows in Oslo")
    assert read_script_block(code).tools == ("search_rows",)
    assert run(code, city="Oslo", kind="open", limit=1) == "3 in Oslo: search_rows 1"
    assert run(code, city="Rome", kind="new", limit=2) == "3 in Rome: search_rows 2, search_rows Rome"


@pytest.mark.parametrize(
    ("program", "result"),
    [
        ("x = 1\nprint(x + 1)", 2),
        ("print('a', 1)\nfor n in range(2):\n    print(n)", "a 1\n0\n1"),
        ("def twice(n):\n    return 2 * n\nif __name__ == '__main__':\n    print(twice(4))", 8),
        ("import math\nmath.floor(2.5)", 2),
        ("x = tools.search_rows(a=1)", None),
    ],
)
def test_the_result_is_the_last_value_or_what_was_printed(program: str, result: Any) -> None:
    assert run(written(program)) == result


def test_awaited_calls_make_a_coroutine_function() -> None:
    code = written("import asyncio\nrows = await asyncio.gather(tools.a(x=1), tools.b(x=2))\nlen(rows)")
    assert "async def the_skill()" in code


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import math", "no statements"),
        ("n = 0\ndef f():\n    global n\n    n += 1\nf()\nn", "`global`"),
        ("print(1, end='')", "prints with keywords"),
    ],
)
def test_programs_that_no_function_can_be_are_refused(program: str, said: str) -> None:
    with pytest.raises(NotDistillable, match=said):
        written(program)


def test_a_name_is_made_of_the_words_of_the_request() -> None:
    parameters = choose_parameters(ast.parse(PROGRAM), "List the open rows in Oslo", [])
    assert skill_name_for("List the open rows in Oslo", parameters) == "list_rows"
    assert skill_name_for("", []) == "distilled_program"

"""Examples in a skill's docstring are tests (SKILL-19)."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import admit
from acquired_skills.proof.docstring_examples import with_docstring_examples
from sandbox.namespace.backend import NamespaceSandbox

pytestmark = [pytest.mark.spec("SKILL-19"), pytest.mark.asyncio(loop_scope="module")]

TESTS = "from double import double\n\n\ndef test_doubles():\n    assert double(2) == 4\n"


def proposal(*examples: str, body: str = "return number * 2", head: str = "") -> ParsedProposal:
    lines = "\n".join(f"    {line}" for example in examples for line in example.splitlines())
    code = f'{head}def double(number: int) -> int:\n    """Double a number.\n\n{lines}\n    """\n    {body}\n'
    return ParsedProposal.parse(Proposal("double", "Doubles a whole number.", code, TESTS))


def added(parsed: ParsedProposal) -> list[str]:
    """Return the last statement of each added test as source text."""
    found = with_docstring_examples(parsed).tests.tree.body[2:]
    return [ast.unparse(node.body[-1]) for node in found if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize(
    ("example", "test"),
    [
        (">>> double(3)\n6", "assert double(3) == 6"),
        (">>> double(\n...     3)\n6", "assert double(3) == 6"),
        (">>> sorted(double([2, 1]))\n[2,\n 4]", "assert sorted(double([2, 1])) == [2, 4]"),
        (">>> given = 4\n>>> double(given)\n8", "assert double(given) == 8"),
        (">>> from numbers_by_others import double\n>>> double(3)\n6", "assert double(3) == 6"),
        (">>> print(double('a'))\naa", "assert str(double('a')) == 'aa'"),
        (">>> double(Decimal('1'))  # doctest: +SKIP\n2", None),
        (">>> from decimal import Decimal\n>>> double(Decimal('1'))\nDecimal('2')",
         "assert repr(double(Decimal('1'))) == \"Decimal('2')\""),
        (">>> double(None)\nTraceback (most recent call last):\nTypeError: no number",
         "with pytest.raises(TypeError):\n    double(None)"),
    ],
)  # fmt: skip
async def test_an_example_becomes_a_test(example: str, test: str | None) -> None:
    assert added(proposal(example)) == ([test] if test else [])


@pytest.mark.parametrize(
    "example",
    [
        ">>> double(3) is not None\nTrue",
        ">>> isinstance(double(3), int)\nTrue",
        ">>> len(double([3]))\n2",
        ">>> double(3)\n",
        ">>> double(3)\nNone",
        ">>> double(double(3))\n12",
        ">>> 3 + 3\n6",
        ">>> double([3])\n[3, ...]",
        ">>> from numbers_by_others import two\n>>> double(two)\n4",
        ">>> double(Point(1))\n2",
        ">>> double(3)\n<Point object at 0x7f>",
        ">>> double(None)\nTraceback (most recent call last):\nException: no number",
        ">>> double(",
        ">>> double(4)\n8\n  >>> double(5)\n 10",
        ">>> x = __import__('os')\n>>> x.system('true')\n0",
        ">>> double('" + "9" * 600 + "')\n6",
    ],
)
async def test_an_example_that_states_no_exact_result_is_left_out(example: str) -> None:
    assert added(proposal(example)) == []


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("", "return len(open(number).read())"),
        ("", "print(number); return number"),
        ("import random\n\n\n", "return random.randrange(number)"),
        ('# /// script\n# [tool.knackbox]\n# destinations = ["example.com:443"]\n# ///\n\n\n', "return number"),
    ],
)
async def test_examples_of_code_that_depends_on_its_surroundings_are_left_out(head: str, body: str) -> None:
    assert added(proposal(">>> double(3)\n6", head=head, body=body)) == []


ASYNC_TESTS = "from double import double\n\n\nasync def test_doubles():\n    assert await double(2) == 4\n"


def in_code(code: str, tests: str = TESTS) -> ParsedProposal:
    return ParsedProposal.parse(Proposal("double", "Doubles a whole number.", code, tests))


@pytest.mark.parametrize(
    ("example", "test"),
    [
        (">>> await double(3)\n6", "assert await double(3) == 6"),
        (">>> asyncio.run(double(3))\n6", "assert await double(3) == 6"),
        (">>> import asyncio\n>>> sorted(asyncio.run(double([2, 1])))\n[2, 4]",
         "assert sorted(await double([2, 1])) == [2, 4]"),
        (">>> await double(None)\nTraceback (most recent call last):\nTypeError: no number",
         "with pytest.raises(TypeError):\n    await double(None)"),
        (">>> double(3)\n6", None),
    ],
)  # fmt: skip
async def test_an_example_of_a_coroutine_function_becomes_a_test_that_awaits_it(example: str, test: str | None) -> None:
    parsed = proposal(example)
    parsed = in_code(parsed.code.text.replace("def double", "async def double"), ASYNC_TESTS)
    made = with_docstring_examples(parsed).tests.tree.body[2:]
    assert all(isinstance(node, ast.AsyncFunctionDef) for node in made)
    assert [ast.unparse(node.body[-1]) for node in made if isinstance(node, ast.AsyncFunctionDef)] == (
        [test] if test else []
    )


async def test_an_awaited_example_of_a_plain_function_is_left_out() -> None:
    assert added(proposal(">>> await double(3)\n6")) == []


@pytest.mark.parametrize(
    "example",
    [
        ">>> twice(3)\n6",
        ">>> Double(3)\n6",
        ">>> from numbers_by_others import double as other\n>>> other(3)\n6",
        ">>> import numbers_by_others\n>>> numbers_by_others.double(3)\n6",
        ">>> import numbers_by_others.parts as parts\n>>> parts.Double(3)\n6",
        ">>> import numbers_by_others.parts\n>>> numbers_by_others.parts.double(3)\n6",
    ],
)
async def test_an_example_may_call_the_skill_by_another_name(example: str) -> None:
    lines = "\n".join(f"    {line}" for line in example.splitlines())
    code = f'def Double(number):\n    """Double.\n\n{lines}\n    """\n    return number * 2\n\n\ndouble = Double\ntwice = Double\n'
    assert added(in_code(code)) == ["assert double(3) == 6"]


@pytest.mark.parametrize(
    ("example", "tests"),
    [
        (">>> twice = 3\n>>> double(twice)\n6", ["assert double(twice) == 6"]),
        (">>> from math import double as other\n>>> other(3)\n3", []),
    ],
    ids=["a variable with that name", "a function of the standard library"],
)
async def test_a_name_that_an_example_gives_to_something_else_is_not_the_skill(example: str, tests: list[str]) -> None:
    lines = "\n".join(f"    {line}" for line in example.splitlines())
    code = f'def double(number):\n    """Double.\n\n{lines}\n    """\n    return number * 2\n\n\ntwice = double\n'
    assert [each.splitlines()[-1] for each in added(in_code(code))] == tests


MONEY = (
    'class Money:\n    """An amount.\n\n    >>> double(Money(4)).amount\n    8\n    """\n\n'
    '    def __init__(self, amount):\n        self.amount = amount\n\n    def text(self):\n        """Format it.\n\n'
    '        >>> double(Money(3)).amount\n        6\n        >>> Money(3).text()\n        \'3\'\n        """\n'
    "        return str(self.amount)\n\n\n"
    'def double(money: Money) -> Money:\n    """Double an amount."""\n    return Money(money.amount * 2)\n'
)
MONEY_TESTS = "from double import Money, double\n\n\ndef test_doubles():\n    assert double(Money(2)).amount == 4\n"


async def test_examples_of_classes_and_methods_that_call_the_skill_become_tests() -> None:
    """An example that calls only a method proves nothing about the skill, since tests are judged without the code."""
    assert added(in_code(MONEY)) == ["assert double(Money(4)).amount == 8", "assert double(Money(3)).amount == 6"]


@pytest.mark.spec("SKILL-5")
@pytest.mark.parametrize(
    ("code", "tests"),
    [
        ('async def double(number: int) -> int:\n    """Double.\n\n    >>> await double(3)\n    6\n    """\n'
         "    return number * 2\n", ASYNC_TESTS),
        (MONEY.replace(">>> double(Money(4)).amount\n    8", ">>> double(Money(3)).amount\n    6"), MONEY_TESTS),
    ],
    ids=["coroutine", "class"],
)  # fmt: skip
async def test_such_examples_are_run_in_the_box(box: NamespaceSandbox, code: str, tests: str) -> None:
    admitted = await admit(in_code(code, tests), box, seed=1, effort=Effort(threshold=0.0))
    assert admitted.tests > 1
    with pytest.raises(SkillRefused, match=r"test_docstring_example_1 fails(.|\n)*Correct the code, or this example"):
        await admit(in_code(code.replace("    6\n", "    7\n"), tests), box, seed=1, effort=Effort(threshold=0.0))


async def test_there_are_at_most_twenty_examples_and_names_do_not_clash() -> None:
    many = proposal(*(f">>> double({number})\n{number * 2}" for number in range(1_000)))
    assert len(added(many)) == 20
    taken = replace(many, tests=replace(many.tests, text=TESTS.replace("test_doubles", "test_docstring_example_1")))
    names = [node.name for node in with_docstring_examples(taken).tests.tree.body if isinstance(node, ast.FunctionDef)]
    assert len(set(names)) == len(names) == 21


@pytest.mark.spec("SKILL-5")
async def test_code_that_contradicts_its_own_example_is_refused(box: NamespaceSandbox) -> None:
    effort = Effort(threshold=0.0)
    with pytest.raises(
        SkillRefused, match=r"test_docstring_example_2(.|\n)*double\(0\) == 1(.|\n)*Correct the code, or this example"
    ):
        await admit(proposal(">>> double(3)\n6", ">>> double(0)\n1"), box, seed=1, effort=effort)
    admitted = await admit(proposal(">>> double(3)\n6", ">>> double(0)\n0"), box, seed=1, effort=effort)
    assert admitted.tests == 3


@pytest.mark.spec("SKILL-1")
async def test_an_example_runs_only_in_a_box(box: NamespaceSandbox, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    example = f">>> double(__import__('pathlib').Path({str(marker)!r}).touch() or 3)\n6"
    with pytest.raises(SkillRefused, match="No such file"):
        await admit(proposal(example), box, seed=1, effort=Effort(threshold=0.0))
    assert not marker.exists()

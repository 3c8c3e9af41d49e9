"""Mutants written as programs, and neutral changes, which keep the meaning of the code."""

import ast
import random
from types import CodeType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from acquired_skills.model.parsed import ParsedSource
from acquired_skills.proof.mutation.mutants import Mutant, make_mutants
from acquired_skills.proof.mutation.neutral import neutral_changes
from acquired_skills.proof.mutation.programs import MutantWriter

pytestmark = pytest.mark.spec("SKILL-6")

AWKWARD = '''# Größe: é, 漢字
import re; LIMIT = 10; ENDS = ("ä",
    "ö", "ü")


class Kind:
\tfirst = 1; second = "zweite"

\t@property
\tdef name(self, start=0, *, end: int = 2):
\t\treturn f"{self.first + 1:>{end}} of {self.second.upper()!r}\\n" "more"


def work(items, text = "a1"):  # keeps its comment
    """Work."""
    total = 0
    if not items: return -1
    elif (len(items) > LIMIT
          and text):  # between
        total += sum(
            each * 2  # doubled
            for each in items
            if each not in (
                1,
                2,
            )
        )
    for item in items[1:]: total -= item if item > 1 else (-item)
    while total > 1000: total //= 2; items = items[:-1]
    try:
        best = max(items, default=0)
    except (TypeError,
            ValueError): raise
    best = [
        abs(x)
        for x in items][0:2] or best
    match text[:2], total:
        case ("zé", 7) | ("zé", -1302): total += 1
        case ("ab", _) if total: total += 2
    return {"größe": text.strip("é") + 'x', 'total': total, "best": best, "kind": Kind().name, "é": "".join([
        text[:1], f"{total}-{len(text) - 1}"])}
'''
CALLS = (([],), ([3, 1, 2, 8],), ([5, 600, 700], "zé"), (list(range(14)), "abc"))


def written(source: MutantWriter, mutant: Mutant) -> str:
    text = source.changed(mutant)
    assert text is not None, (mutant.before, mutant.after)
    return text


def meant(source: MutantWriter, mutant: Mutant) -> str:
    mutant.make()
    try:
        return ast.dump(ast.parse(ast.unparse(source.source.tree)))
    finally:
        mutant.undo()


@pytest.mark.parametrize("code", [AWKWARD, AWKWARD.replace("\n", "\r\n")], ids=["lines", "CRLF"])
def test_every_mutant_is_a_program_that_differs_in_one_place_and_moves_no_line(code: str) -> None:
    source = MutantWriter(ParsedSource.parse(code))
    made = make_mutants(source.source.tree, 10_000, 1)
    made += neutral_changes(source.source.tree, made, 10_000, random.Random(1))
    assert len(made) > 120
    before = ast.dump(source.source.tree, include_attributes=True)
    lines = code.split("\n")
    for mutant in made:
        text = written(source, mutant)
        assert ast.dump(ast.parse(text)) == meant(source, mutant)
        changed = text.split("\n")
        assert len(changed) == len(lines)
        end = max(mutant.place.end_lineno or 0, mutant.line)
        assert (changed[: mutant.line - 1], changed[end + 3 :]) == (lines[: mutant.line - 1], lines[end + 3 :])
    assert ast.dump(source.source.tree, include_attributes=True) == before


def test_the_code_of_unchanged_functions_is_the_same() -> None:
    source = MutantWriter(ParsedSource.parse(AWKWARD))
    work = code_of(AWKWARD, "work")
    for mutant in make_mutants(source.source.tree, 10_000, 1):
        if mutant.line < AWKWARD[: AWKWARD.index("def work")].count("\n"):
            assert code_of(written(source, mutant), "work") == work  # including the line table and the constants


def code_of(text: str, name: str) -> CodeType:
    module = compile(text, "work.py", "exec")
    return next(one for one in module.co_consts if isinstance(one, CodeType) and one.co_name == name)


@settings(deadline=None, max_examples=25)
@given(some.integers(0, 10_000))
def test_a_neutral_change_is_different_code_with_the_same_answers(seed: int) -> None:
    source = MutantWriter(ParsedSource.parse(AWKWARD))
    made = make_mutants(source.source.tree, 10_000, 1)
    for neutral in neutral_changes(source.source.tree, made, 12, random.Random(seed)):
        text = written(source, neutral)
        assert text != AWKWARD
        assert answers(text) == answers(AWKWARD), (neutral.before, neutral.after)


def answers(text: str) -> list[object]:
    names: dict[str, object] = {}
    exec(compile(text, "work.py", "exec"), names)
    work = names["work"]
    assert callable(work)
    return [work(*(list(each) if isinstance(each, list) else each for each in call)) for call in CALLS]


def test_neutral_changes_are_random_and_spread_over_the_lines() -> None:
    source = MutantWriter(ParsedSource.parse(AWKWARD))
    made = make_mutants(source.source.tree, 10_000, 1)
    chosen = [neutral_changes(source.source.tree, made, 3, random.Random(seed)) for seed in range(8)]
    assert all(len({each.line for each in some}) == 3 for some in chosen)
    assert len({tuple(each.line for each in some) for some in chosen}) > 4


def test_no_constant_is_replaced_if_the_code_compares_values_by_identity() -> None:
    source = MutantWriter(ParsedSource.parse("def work(a):\n    return a is LIMIT or a == 1000\n\n\nLIMIT = 1000\n"))
    made = make_mutants(source.source.tree, 100, 1)
    for seed in range(20):
        assert all(
            "1001" not in each.after for each in neutral_changes(source.source.tree, made, 10, random.Random(seed))
        )

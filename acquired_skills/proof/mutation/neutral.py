"""Makes changes to a skill's code that do not change its meaning (SKILL-6).

These changes are the control group of the mutants: they are made in the same places and run in the same way. If code
answers differently after such a change, it detects changes of its own text, so its mutants prove nothing.
"""

import ast
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from acquired_skills.proof.mutation.mutants import Mutant, code_excerpt

_VALUES = {ast.Return: "value", ast.Expr: "value", ast.AugAssign: "value", ast.Raise: "exc", ast.Assert: "test"}
_NO_VALUES = (ast.Slice, ast.Starred)
_MOST_NUMBER = 1 << 40


def neutral_changes(tree: ast.Module, mutants: Sequence[Mutant], most: int, chance: random.Random) -> list[Mutant]:
    """Return at most `most` changes in randomly chosen places of mutants, on different lines where possible."""
    fixed = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.pattern):  # Python allows only a few expressions in a `case`
            fixed.update(each for each in ast.walk(node) if isinstance(each, ast.expr))
    exact = not any(isinstance(node, ast.Is | ast.IsNot) for node in ast.walk(tree))
    rest = chance.sample(mutants, len(mutants))
    first = list({each.line: each for each in rest}.values())
    found: dict[ast.AST, Mutant] = {}
    for mutant in [*first, *rest]:
        if len(found) == most:
            break
        if mutant.place in fixed or mutant.place in found:
            continue
        other = _same(mutant.place, chance, exact=exact)
        if other is not None:
            after = code_excerpt(other)
            found[mutant.place] = replace(mutant, after=after, other=other)
    return list(found.values())


def _same(node: ast.AST, chance: random.Random, *, exact: bool) -> ast.AST | None:
    """Return different code with the same meaning, or None if there is none.

    Args:
        exact: Whether the code never compares values by identity (`is`).
    """
    if isinstance(node, ast.expr):
        readable = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        return _value(node, chance, exact=exact) if readable and not isinstance(node, _NO_VALUES) else None
    field = next((field for kind, field in _VALUES.items() if isinstance(node, kind)), "")
    inner = getattr(node, field, None)
    if inner is None:
        return None
    return type(node)(**{**dict(ast.iter_fields(node)), field: _value(inner, chance, exact=exact)})


def _value(node: ast.expr, chance: random.Random, *, exact: bool) -> ast.expr:
    ways: list[Callable[[ast.expr], ast.expr]] = [
        lambda e: _item([e], 0),
        lambda e: _item([ast.Constant(None), e], 1),
        lambda e: ast.Subscript(ast.Dict([ast.Constant(0)], [e]), ast.Constant(0), ast.Load()),
        lambda e: ast.IfExp(ast.List([ast.Constant(1)], ast.Load()), e, ast.Constant(None)),
    ]
    if exact and isinstance(node, ast.Constant):
        match node.value:  # the new constants are close to the original ones, like those in mutants
            case int(number) if not isinstance(number, bool) and 0 <= number < _MOST_NUMBER:
                ways = [lambda _: ast.BinOp(_item([ast.Constant(number + 1)], 0), ast.Sub(), ast.Constant(1))]
            case str(text) if len(text) > 1:
                ways = [lambda _: ast.BinOp(_item([ast.Constant(text[:-1])], 0), ast.Add(), ast.Constant(text[-1]))]
    return chance.choice(ways)(node)


def _item(items: list[ast.expr], number: int) -> ast.expr:
    return ast.Subscript(ast.List(items, ast.Load()), ast.Constant(number), ast.Load())

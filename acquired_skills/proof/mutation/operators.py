"""Mutation operators, which replace a piece of code with a typical mistake.

They are the usual operators of mutation testing (DeMillo, Lipton and Sayward, "Hints on Test Data Selection", 1978),
among them the five that Offutt et al. (1996) found sufficient: relational, logical, arithmetic, absolute value and
unary. Because skills often work on strings and lists, there are also operators for slices, methods and omitted
arguments.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

_DIGIT = re.compile("[0-9]")
_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_COMPUTED: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv, ast.Add, ast.Mod),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Mult, ast.Mod),
    ast.Mod: (ast.FloorDiv, ast.Mult),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitOr,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "ceil": "floor", "floor": "ceil"}
_POOLS = frozenset(("Pool", "ProcessPoolExecutor", "ThreadPool", "ThreadPoolExecutor"))
_METHODS = {
    "lower": "upper",
    "upper": "lower",
    "startswith": "endswith",
    "endswith": "startswith",
    "lstrip": "rstrip",
    "rstrip": "lstrip",
    "find": "rfind",
    "rfind": "find",
    "index": "rindex",
    "split": "rsplit",
    "add": "discard",
    "union": "intersection",
    "intersection": "union",
    "match": "search",
    "search": "match",
}


# Functions whose result is similar to their argument, so that omitting the call is a typical mistake.
_AS_IT_IS = frozenset(
    (
        "abs",
        "int",
        "list",
        "lower",
        "lstrip",
        "replace",
        "reversed",
        "round",
        "rstrip",
        "set",
        "sorted",
        "strip",
        "upper",
    )
)


def place_replacements(parent: ast.AST, field: str, node: ast.AST) -> list[ast.expr]:
    """Return replacements that are possible only in this place, such as True for the condition of an `if`."""
    match parent, field, node:
        case ast.If(), "test", _:
            return [ast.Constant(True), ast.Constant(False)]
        case ast.comprehension(), "ifs", _:
            return [ast.Constant(True), ast.Constant(False)]
        case ast.While(), "test", _:
            return [ast.Constant(False)]  # an endless loop would run until it is killed
        case ((ast.For() | ast.comprehension()), "iter", ast.expr()):
            first = ast.Slice(None, ast.Constant(1), None)
            return [ast.Subscript(ast.Call(ast.Name("list", ast.Load()), [node], []), first, ast.Load())]
    return []


def replacements(node: ast.expr | ast.stmt) -> Iterator[ast.AST]:
    """Yield replacements that are possible anywhere in the code."""
    return _OTHERS.get(type(node), _none)(node)


def _none(_: ast.AST) -> Iterator[ast.AST]:
    return iter(())


def _removed(_: ast.AST) -> Iterator[ast.AST]:
    yield ast.Pass()


def _compared(node: ast.Compare) -> Iterator[ast.AST]:
    for i, op in enumerate(node.ops):
        for other in _COMPARED[type(op)]:
            yield ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]], node.comparators)


def _computed(node: ast.BinOp) -> Iterator[ast.AST]:
    for operator in _COMPUTED.get(type(node.op), ()):
        yield ast.BinOp(node.left, operator(), node.right)


def _added(node: ast.AugAssign) -> Iterator[ast.AST]:
    for operator in _COMPUTED.get(type(node.op), ()):
        yield ast.AugAssign(node.target, operator(), node.value)
    yield ast.Pass()


def _joined(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    yield from node.values


def _signed(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if not isinstance(node.op, ast.UAdd):
        yield node.operand


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    return (ast.Constant(other) for other in _values(node.value))


def _chosen(node: ast.IfExp) -> Iterator[ast.AST]:
    yield node.body
    yield node.orelse


def _returned(node: ast.Return) -> Iterator[ast.AST]:
    if node.value is not None and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(None))


def _sliced(node: ast.Slice) -> Iterator[ast.AST]:
    if node.lower is not None:
        yield ast.Slice(None, node.upper, node.step)
    if node.upper is not None:
        yield ast.Slice(node.lower, None, node.step)
    if node.step is not None:
        yield ast.Slice(node.lower, node.upper, None)


def is_timeout(keyword: ast.keyword) -> bool:
    """Return whether a keyword argument is a timeout, which no test can check."""
    return (keyword.arg or "").startswith("timeout")


def is_pool(node: ast.AST) -> bool:
    """Return whether a call makes a pool of workers, of which no test can check the number."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _POOLS
    return False


def _called(node: ast.Call) -> Iterator[ast.AST]:
    for index, keyword in enumerate(node.keywords):
        if not is_timeout(keyword):
            yield ast.Call(node.func, node.args, [*node.keywords[:index], *node.keywords[index + 1 :]])
    if len(node.args) > 1:
        yield ast.Call(node.func, node.args[:-1], node.keywords)
    match node.func:
        case ast.Name(id=name) if name in _FUNCTIONS:
            yield ast.Call(ast.Name(_FUNCTIONS[name], ast.Load()), node.args, node.keywords)
        case ast.Name(id=name) if name in _AS_IT_IS and node.args:
            yield node.args[0]
        case ast.Attribute(value=value, attr=method):
            if method in _METHODS:
                yield ast.Call(ast.Attribute(value, _METHODS[method], ast.Load()), node.args, node.keywords)
            if method in _AS_IT_IS or not isinstance(value, ast.Name):
                yield value


# Looked up by exact type, because syntax trees contain no subclasses of these.
_OTHERS: dict[type[ast.AST], Callable[[Any], Iterator[ast.AST]]] = {
    ast.Compare: _compared,
    ast.BinOp: _computed,
    ast.AugAssign: _added,
    ast.BoolOp: _joined,
    ast.UnaryOp: _signed,
    ast.Constant: _constants,
    ast.IfExp: _chosen,
    ast.Slice: _sliced,
    ast.Call: _called,
    ast.Return: _returned,
    ast.Break: lambda _: iter((ast.Continue(),)),
    ast.Continue: lambda _: iter((ast.Break(),)),
    ast.Expr: _removed,
    ast.Raise: _removed,
    ast.Delete: _removed,
    ast.Assert: _removed,
}


def _values(value: object) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int() | float():
            yield value + 1
            if value:
                yield value - 1
        case str() if len(value) > 1:
            yield value[1:]
            yield value[:-1]
            yield from _renumbered(value)
        case str():
            yield "" if value else "?"
            yield value + "?"
        case bytes():
            yield value + b"?"


def _renumbered(text: str) -> Iterator[str]:
    """Yield the text with its first digit incremented, such as `{5,}` for `{4,}` and `.3f` for `.2f`."""
    digit = _DIGIT.search(text)
    if digit:
        yield text[: digit.start()] + str((int(digit[0]) + 1) % 10) + text[digit.end() :]

"""Recognizes a reference that is a copy of the skill, so that its agreement would prove nothing (GATE-5).

Both sources are parsed and converted to a common form, without names, comments, docstrings and type hints. This finds
copies that were renamed, reformatted or slightly changed. It does not find code that was rewritten by hand.
"""

import ast
import builtins
import copy
import difflib
import itertools
from collections.abc import Iterator

from acquired_skills.model.parsed import ParsedSource

MOST_ALIKE = 0.9  # similarity of syntax trees at which a reference counts as a copy
_MOST_PARTS = 4_000  # maximum number of nodes of each source that are compared
_LEAST_NODES = 12  # smallest number of nodes; smaller functions, such as `return a + b`, may be equal by chance
_BUILTIN = frozenset(vars(builtins))
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def is_copy(reference: ParsedSource, code: ParsedSource) -> bool:
    """Return whether a reference has nearly the same syntax tree as the code, or contains its largest function."""
    ours, theirs = _normalized(code), _normalized(reference)
    if ast.dump(ours) == ast.dump(theirs):
        return True
    largest = max(map(_dump_of_function, _functions(ours)), key=len, default="")
    if largest.count("(") >= _LEAST_NODES and largest in set(map(_dump_of_function, _functions(theirs))):
        return True
    one, other = (list(itertools.islice(_parts(tree), _MOST_PARTS)) for tree in (ours, theirs))
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio() >= MOST_ALIKE


def _normalized(source: ParsedSource) -> ast.Module:
    tree = _Normalizer().visit(copy.deepcopy(source.tree))
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    _rename(tree)
    return ast.Module(tree.body, [])


class _Normalizer(ast.NodeTransformer):
    """Removes docstrings and type hints, and writes `x += 1` as `x = x + 1` and `a > b` as `b < a`."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return _without_pass(self.generic_visit(node))

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return _without_pass(self.generic_visit(node))

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return self.generic_visit(ast.Assign([node.target], node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return self.generic_visit(ast.Assign([node.target], value))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        mirrored = _MIRRORED.get(type(node.ops[0])) if len(node.ops) == 1 else None
        return node if mirrored is None else ast.Compare(node.comparators[0], [mirrored()], [node.left])


def _without_pass(node: ast.AST) -> ast.AST:
    if isinstance(node, _Function):
        node.body = [each for each in node.body if not isinstance(each, ast.Pass)]
    return node


def _rename(tree: ast.AST) -> None:
    """Replace every name, except those that Python defines, by a number in the order of first use."""
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return name if name in _BUILTIN else numbers.setdefault(name, f"name{len(numbers)}")

    for node in _in_order(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                node.name = number(node.name)
            case ast.Name():
                node.id = number(node.id)
            case ast.arg():
                node.arg = number(node.arg)
            case ast.keyword(arg=str(name)):
                node.arg = numbers.get(name, name)
            case ast.ExceptHandler(name=str(name)):
                node.name = number(name)


def _in_order(tree: ast.AST) -> Iterator[ast.AST]:
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from _in_order(child)


def _functions(tree: ast.AST) -> Iterator[_Function]:
    return (node for node in ast.walk(tree) if isinstance(node, _Function))


def _dump_of_function(function: _Function) -> str:
    """Return the body of a function as text, with names numbered within it."""
    alone = copy.deepcopy(function)
    _rename(alone)
    return ast.dump(alone)


def _parts(tree: ast.AST) -> Iterator[str]:
    """Yield the kind of every node, with its name or value, as text."""
    for node in _in_order(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield f"{type(node).__name__} {name}"
            case ast.Constant(value=value):
                yield f"Constant {value!r:.80}"
            case ast.Load() | ast.Store() | ast.arguments() | ast.Expr():
                continue
            case _:
                yield type(node).__name__

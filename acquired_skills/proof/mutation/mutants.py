"""Makes small changes to a skill's code that good tests should detect (SKILL-6).

The changes are made in a syntax tree. `acquired_skills.proof.mutation.programs` turns each changed tree into a program.
"""

import ast
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from acquired_skills.proof.mutation.operators import is_pool, is_timeout, place_replacements, replacements

_LOGGING_METHODS = frozenset(("critical", "debug", "error", "exception", "info", "log", "warn", "warning"))
_PARTS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINING = _PARTS | ast.Assign | ast.AnnAssign
_RUNNING = ast.Expr | ast.If | ast.For | ast.While | ast.Try | ast.With
MAX_SHOWN = 80  # maximum number of characters of code in a description


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to a syntax tree.

    Attributes:
        line: The line of the change, counted from 1.
        before, after: The original code and its replacement, as text.
        place, other: The original node and the node that replaces it.
        put: A function that puts a node into the tree in place of the original one.
        path: The path of the extra file that is changed; "" for the skill's main file.
    """

    line: int
    before: str
    after: str
    place: ast.expr | ast.stmt
    other: ast.AST
    put: Callable[[ast.AST], None]
    path: str = ""

    @property
    def where(self) -> str:
        """The line, and the file if it is not the main file: ``line 3 of rates.py``."""
        return f"line {self.line}" + (f" of {self.path}" if self.path else "")

    def make(self) -> None:
        """Make the change in the tree."""
        if not hasattr(self.other, "lineno"):  # if `other` is a part of the replaced node, it already has a location
            ast.copy_location(self.other, self.place)
        self.put(ast.fix_missing_locations(self.other))

    def undo(self) -> None:
        """Restore the tree."""
        self.put(self.place)


def make_mutants(
    tree: ast.Module, most: int, seed: int, modules: Mapping[str, ast.Module] | None = None
) -> list[Mutant]:
    """Return at most `most` mutants. The same seed gives the same mutants.

    The mutants are spread evenly over the lines. If there are more lines than `most`, the mutants are first spread
    evenly over the functions, the classes and the rest of each file, so that a long table of constants does not use up
    all mutants.

    Args:
        modules: The skill's further modules, by path.
    """
    order = random.Random(seed)  # noqa: S311 -- a choice, not a secret
    parts: list[list[list[Mutant]]] = []
    for path, each in {"": tree, **(modules or {})}.items():
        by_part: dict[int, dict[int, list[Mutant]]] = {}
        for part, found in _of(each):
            mutant = replace(found, path=path) if path else found
            by_part.setdefault(part, {}).setdefault(found.line, []).append(mutant)
        parts += [[lines[line] for line in sorted(lines)] for _, lines in sorted(by_part.items())]
    for row in (row for part in parts for row in part):
        order.shuffle(row)
    rows = sorted((row for part in parts for row in part), key=lambda row: (row[0].path, row[0].line))
    if len(rows) <= most:
        return list(_in_turn(rows))[:most]
    return list(_in_turn([list(_in_turn(part)) for part in parts]))[:most]


def _in_turn(rows: Sequence[Sequence[Mutant]]) -> Iterator[Mutant]:
    """Yield the first mutant of each row, then the second of each row, and so on."""
    return (each for turn in zip_longest(*rows) for each in turn if each is not None)


def _of(tree: ast.Module) -> Iterator[tuple[int, Mutant]]:
    """Yield every change to a module in the order of the code.

    Each change comes with the number of the function or class that contains it, or 0 for the rest of the code. Code
    that tests should not check is not changed: docstrings, annotations, printed or logged texts, the messages of
    exceptions, timeouts, and pools of workers (Petrovic and Ivankovic, "State of Mutation Testing at Google", 2018,
    call such code arid).
    """
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.Expr) and not _silent(node):
            yield from ((0, each) for each in _changes(node, _into_list(tree.body, index), []))
        if isinstance(node, _DEFINING | _RUNNING) and not (_silent(node) or _is_main(node)):
            part = index + 1 if isinstance(node, _PARTS) else 0
            yield from ((part, each) for each in _places(node))


def _places(node: ast.AST) -> Iterator[Mutant]:
    if isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and is_timeout(node)) or is_pool(node):
        return
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "type_comment", "type_params"}:
            continue
        if isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST) and not _silent(item):
                    yield from _changes(item, _into_list(value, index), place_replacements(node, field, item))
                    yield from _places(item)
        elif isinstance(value, ast.AST):
            yield from _changes(value, _into_field(node, field), place_replacements(node, field, value))
            yield from _places(value)


def _changes(node: ast.AST, put: Callable[[ast.AST], None], here: list[ast.expr]) -> Iterator[Mutant]:
    """Yield the changes of one node.

    Args:
        put: A function that puts another node in place of `node`.
        here: Replacements that are possible only in this place of the tree.
    """
    if not isinstance(node, ast.expr | ast.stmt) or is_pool(node):
        return
    others = (*here, *replacements(node))
    before = code_excerpt(node) if others else ""
    for other in others:
        after = code_excerpt(other)
        if before != after:
            yield Mutant(node.lineno, before, after, node, other, put)


def _is_main(node: ast.AST) -> bool:
    """Return whether a node is `if __name__ == "__main__"`, which no test runs."""
    return isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def _silent(node: ast.AST) -> bool:
    """Return whether a node is a docstring, or a call that only prints or logs."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())) | ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method))):
            return method in _LOGGING_METHODS
    return False


def _into_list(items: list[Any], index: int) -> Callable[[ast.AST], None]:
    def put(other: ast.AST) -> None:
        items[index] = other

    return put


def _into_field(node: ast.AST, field: str) -> Callable[[ast.AST], None]:
    return lambda other: setattr(node, field, other)


def code_excerpt(node: ast.AST) -> str:
    """Return the first line of a node as code, shortened."""
    text = ast.unparse(node).split("\n", 1)[0]
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"

"""Makes probes: programs that end as soon as a certain line is reached (SKILL-6, GATE-2).

A probe shows whether a call executes a line, without a trace function that code could notice. A box runs it like a
mutant. If it gives the same answers as the skill, no call executes the line.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from acquired_skills.proof.mutation.mutants import Mutant

_EXIT = "__import__('os')._exit(1)"
_Parents = Mapping[ast.AST, tuple[ast.AST, str, int | None]]


@dataclass(frozen=True, slots=True)
class Probe:
    """A change that ends the process where the code of some mutants is reached.

    Attributes:
        change: The change to the code.
        function: The name of the function or method that contains the line; "" outside of functions.
        mutants: The numbers of the mutants in the code that is executed only if the line is reached.
    """

    change: Mutant
    function: str
    mutants: tuple[int, ...]


def make_probes(mutants: Mapping[int, Mutant], trees: Mapping[str, ast.Module]) -> list[Probe]:
    """Return a probe for each line that one of these mutants changes, in the order of the files and lines.

    Lines for which no probe can be written are left out.

    Args:
        mutants: Mutants of the skill, by number.
        trees: The syntax trees from which the mutants were made, by path; "" is the path of the main file.
    """
    parents = {path: _parents(tree) for path, tree in trees.items()}
    by_place: dict[ast.AST, list[int]] = {}
    for number, mutant in mutants.items():
        place = _place(mutant.place, parents.get(mutant.path, {}))
        if place is not None:
            by_place.setdefault(place, []).append(number)
    found = [_probe(place, numbers, mutants, parents) for place, numbers in by_place.items()]
    return sorted(found, key=lambda probe: (probe.change.path, probe.change.line))


def _probe(
    place: ast.AST, numbers: Iterable[int], mutants: Mapping[int, Mutant], parents: Mapping[str, _Parents]
) -> Probe:
    assert isinstance(place, ast.expr | ast.stmt)  # noqa: S101 -- only these are places
    numbers = tuple(sorted(numbers))
    path = mutants[numbers[0]].path
    end = ast.parse(_EXIT, mode="eval").body
    parent, field, index = parents[path][place]
    other = ast.Expr(end) if isinstance(place, ast.stmt) else end
    change = Mutant(place.lineno, "", _EXIT, place, other, partial(_put, parent, field, index), path)
    return Probe(change, _function(place, parents[path]), numbers)


def _place(node: ast.AST, parents: _Parents) -> ast.AST | None:
    """Return the innermost statement around a node; in the head of a block, the whole expression around it.

    The result is None if the node is neither in the code nor in such a place, as the pattern of a `case`.
    """
    while node in parents:
        if isinstance(node, ast.stmt):
            return None if isinstance(node, ast.Match) or hasattr(node, "body") else node
        parent = parents[node][0]
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.pattern):
            return None
        block = isinstance(parent, ast.Match | ast.withitem | ast.ExceptHandler | ast.match_case)
        if block or (isinstance(parent, ast.stmt) and hasattr(parent, "body")):
            target = isinstance(getattr(node, "ctx", None), ast.Store)
            return node if isinstance(node, ast.expr) and not target else None
        node = parent
    return None


def _parents(tree: ast.Module) -> _Parents:
    """Return the parent of each node, with the field and, in a list, the index that contains the node."""
    found: dict[ast.AST, tuple[ast.AST, str, int | None]] = {}
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, list):
                found |= {item: (parent, field, at) for at, item in enumerate(value) if isinstance(item, ast.AST)}
            elif isinstance(value, ast.AST):
                found[value] = (parent, field, None)
    return found


def _function(node: ast.AST, parents: _Parents) -> str:
    names: list[str] = []
    while node in parents:
        node = parents[node][0]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
    return ".".join(reversed(names))


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node

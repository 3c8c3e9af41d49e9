"""Extracts one function from a script, with everything that it needs, without running the script."""

import ast
import re
from collections.abc import Iterator

from acquired_skills.model.script_block import script_block_text

_LINE_END = re.compile(r"\r\n|\r|\n")  # the line endings of Python source
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def source_of(text: str, tree: ast.Module, name: str) -> str:
    """Return a module with the function, everything that it uses from the script, and the PEP 723 script block.

    The rest of the script is left out, such as the code that runs when the script is called, because no test of the
    function could depend on it.
    """
    kept = _needed(tree, name)
    lines = _LINE_END.split(text)
    numbers: set[int] = set()
    groups: list[str] = []
    for node in (each for each in tree.body if id(each) in kept):
        span = range(_start(node, lines), (node.end_lineno or node.lineno) + 1)
        new = [number for number in span if number not in numbers]
        numbers.update(new)
        if new:
            groups.append(_separator(groups, node, tree, kept) + "\n".join(lines[number - 1] for number in new))
    block = script_block_text(text)
    return f"{block}\n\n{''.join(groups)}\n".lstrip("\n") if block else f"{''.join(groups)}\n"


def _separator(groups: list[str], node: ast.stmt, tree: ast.Module, kept: set[int]) -> str:
    if not groups:
        return ""
    before = [each for each in tree.body if id(each) in kept and each.lineno < node.lineno][-1]
    if isinstance(node, _Definition) or isinstance(before, _Definition):
        return "\n\n\n"
    imports = isinstance(node, ast.Import | ast.ImportFrom) == isinstance(before, ast.Import | ast.ImportFrom)
    return "\n" if imports else "\n\n"


def _start(node: ast.stmt, lines: list[str]) -> int:
    """Return the number of the first line of a statement, including its decorators and the comment right above it."""
    decorators = node.decorator_list if isinstance(node, _Definition) else []
    first = min([node.lineno, *(each.lineno for each in decorators)])
    above = first
    while above > 1 and lines[above - 2].startswith("#"):
        above -= 1
    block = any(line.startswith(("# ///", "#!")) for line in lines[above - 1 : first - 1])
    return first if block else above


def _needed(tree: ast.Module, name: str) -> set[int]:
    """Return the ids of the top-level statements that the function needs."""
    by_name: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for each in bound_names(node):
            by_name.setdefault(each, []).append(node)
    always = [node for node in tree.body if isinstance(node, ast.ImportFrom) and _always(node)]
    functions = [node for node in by_name.get(name, ()) if isinstance(node, _Definition)]
    kept: set[int] = set()
    values: set[str] = set()
    left: list[ast.stmt] = [*always, *functions]
    while left:
        node = left.pop()
        if id(node) in kept:
            continue
        kept.add(id(node))
        if not isinstance(node, _Definition | ast.Import | ast.ImportFrom):
            values.update(bound_names(node))
        left += (each for used in _used(node) for each in by_name.get(used, ()))
        left += (each for each in tree.body if _changes(each) in values)
    return kept


def _always(node: ast.ImportFrom) -> bool:
    return node.module == "__future__" or any(alias.name == "*" for alias in node.names)


def bound_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a top-level statement binds in its module."""
    if isinstance(node, _Definition):
        yield node.name
        return
    for each in ast.walk(node):
        match each:
            case ast.Name(id=found, ctx=ast.Store()):
                yield found
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found):
                yield found
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)


def _used(node: ast.stmt) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Global):
            yield from each.names


def _changes(node: ast.stmt) -> str:
    """Return the name that ``TABLE["x"] = 1``, ``TABLE.update(…)`` or a similar statement changes; "" for others."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute() as place)):
            changed: ast.expr = place
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() as place]) | ast.AugAssign(target=place):
            changed = place
        case _:
            return ""
    while isinstance(changed, ast.Attribute | ast.Subscript):
        changed = changed.value
    return changed.id if isinstance(changed, ast.Name) else ""

"""Gives a proposal a snake_case name if its function is named in another style (SKILL-2).

The function keeps its name. A line is added to the code that makes the name of the skill an alias of the function, and
the tests are changed to import the alias, so that everything that is tested and stored uses one name.
"""

import ast
import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from acquired_skills.model.parsed import parse_source
from acquired_skills.model.proposal import Proposal

_SEPARATED = re.compile(r"[A-Za-z0-9_ .-]{1,80}")
_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[ ._-]+")  # the boundary between two words
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def snake_case(name: str) -> str:
    """Convert a name to snake_case, unless it has characters other than ASCII letters, digits and separators."""
    if not _SEPARATED.fullmatch(name):
        return name
    return _BREAK.sub("_", name).strip("_").lower()


def in_snake_case(proposal: Proposal) -> tuple[Proposal, str]:
    """Return the proposal with its name in snake_case and, if anything was changed, a note for its author.

    If the code or the tests cannot be parsed, only the name is changed.
    """
    name = snake_case(proposal.name)
    if keyword.iskeyword(name):
        return proposal, ""
    if name == proposal.name and re.search(rf"^(async )?def {re.escape(name)}\b", proposal.code, re.MULTILINE):
        return proposal, ""
    try:
        code, tests = parse_source(proposal.code), parse_source(proposal.tests)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return replace(proposal, name=name), ""
    function = _aliased(code, name, proposal.name)
    names = frozenset({proposal.name, function} - {name, ""})
    if not names:
        return proposal, ""
    changed = replace(proposal, name=name, tests=_with_imports(proposal.tests, tests, names, name))
    if not function:
        return changed, f"Skill names are in snake_case, so this skill is named `{name}`."
    if not any(isinstance(node, ast.Assign) and name in _targets(node) for node in code.body):
        end = "" if proposal.code.endswith("\n") else "\n"
        changed = replace(changed, code=f"{proposal.code}{end}\n\n{name} = {function}  # the name of the skill\n")
    return (
        changed,
        f"Skill names are in snake_case, so this skill is named `{name}`, an alias of `{function}` in its code.",
    )


def function_of(name: str, tree: ast.Module) -> str:
    """Return the name of the function for which a top-level assignment makes `name` an alias; "" if there is none."""
    values = [node.value for node in tree.body if isinstance(node, ast.Assign) and name in _targets(node)]
    return values[-1].id if values and isinstance(values[-1], ast.Name) else ""


def _aliased(code: ast.Module, name: str, given: str) -> str:
    """Return the name of the function that is `name` if converted to snake_case; "" if there is not exactly one.

    Private functions are meant only if the author named the skill like that (`given`).
    """
    functions = {node.name for node in code.body if isinstance(node, _Function)}
    meant = (each for each in functions if each == given or not each.startswith("_"))
    similar = [each for each in meant if snake_case(each) == name]
    return similar[0] if len(similar) == 1 and name not in functions else ""


def _targets(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _with_imports(source: str, tree: ast.Module, names: frozenset[str], name: str) -> str:
    """Return the source of the tests, with imports of the new name instead of the old names."""
    edits = list(_edits(tree, names, name))
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    data = b"".join(lines)
    for node, text in sorted(edits, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        data = data[:start] + text.encode() + data[end:]
    return data.decode()


def _edits(tree: ast.Module, names: frozenset[str], name: str) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Yield the nodes of the tests that have to change, each with the text that replaces it."""
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module in {*names, name}:
            yield node, "; ".join(_from(node.names, names, name))
        elif isinstance(node, ast.Import):
            modules |= {each.asname or each.name for each in node.names if each.name in {*names, name}}
            renamed = [ast.alias(name, each.asname or each.name) if each.name in names else each for each in node.names]
            if renamed != node.names:
                yield node, ast.unparse(ast.Import(renamed))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=attr) if module in modules and attr in names:
                yield node, f"{module}.{name}"


def _from(aliases: Iterable[ast.alias], names: frozenset[str], name: str) -> Iterator[str]:
    plain = [ast.alias(name, each.asname or each.name) if each.name in names else each for each in aliases]
    yield ast.unparse(ast.ImportFrom(name, plain, 0))
    if any(each.name == "*" for each in aliases):
        for each in sorted(names):
            if each.isidentifier():
                yield f"from {name} import {name} as {each}"

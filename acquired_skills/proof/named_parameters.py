"""Removes the `/` from signatures, because agents pass all arguments by name (SKILL-2)."""

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import replace

from acquired_skills.model.parsed import parse_source
from acquired_skills.model.proposal import Proposal
from acquired_skills.proof.snake_case import function_of

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_NOTE = "The `/` was removed from the parameters of `{}`, because a tool's arguments have names."


def with_named_parameters(proposal: Proposal) -> tuple[Proposal, str]:
    """Return the proposal without positional-only parameters and, if anything was changed, a note for its author.

    Calls with positional arguments still work.
    """
    code = without_marker(proposal.code, proposal.name)
    return replace(proposal, code=code), "" if code == proposal.code else _NOTE.format(proposal.name)


def without_marker(source: str, name: str) -> str:
    """Remove the `/` from the signature of the function `name`, or of the function that `name` is an alias of.

    A source that cannot be parsed is returned as it is.
    """
    try:
        tree = parse_source(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    names = {name, function_of(name, tree)} - {""}
    found = [node for node in tree.body if isinstance(node, _Function) and node.name in names]
    lines = source.splitlines(keepends=True)
    for function in reversed(found):  # in reverse order, so that earlier positions stay valid
        for row, column in _cut(source, lines, function):
            line = lines[row - 1]
            lines[row - 1] = line[:column] + line[column + 1 :]
    return "".join(lines)


def _cut(source: str, lines: list[str], function: _Function) -> Iterator[tuple[int, int]]:
    """Yield the positions of the `/` in a signature and of the comma before it, in reverse order."""
    end = _end_of_positional(function.args)
    if end is None:
        return
    row, byte = end
    start = row, len(lines[row - 1].encode()[:byte].decode())
    comma = start
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.start < start or token.type != tokenize.OP:
            continue
        if token.string == ",":
            comma = token.start
        elif token.string == "/":
            yield token.start
            yield comma
            return


def _end_of_positional(arguments: ast.arguments) -> tuple[int, int] | None:
    """Return the line and the byte at which the last positional-only parameter ends; None if there is none."""
    if not arguments.posonlyargs:
        return None
    last = len(arguments.posonlyargs) - 1
    at = last - len(arguments.posonlyargs) - len(arguments.args) + len(arguments.defaults)
    node = arguments.defaults[at] if at >= 0 else arguments.posonlyargs[last]
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset

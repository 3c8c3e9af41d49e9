"""Writes mutants as programs: the skill's own source text with one replacement (SKILL-6).

A box gets a program as a file and runs it in the same way as the skill, so a mutant differs from the skill only in the
replaced text. The number of lines is the same, and each line keeps its number.
"""

import ast
import bisect
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from acquired_skills.model.parsed import ParsedSource, parse_source
from acquired_skills.proof.mutation.mutants import Mutant

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")  # lines of Python source, which a form feed does not end
_ATOMS = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.Constant)


class MutantWriter:
    """Writes mutants of a source as programs. The mutants must have been made from the syntax tree of the source.

    Attributes:
        modules: A writer for each further module of the skill, by path.
    """

    def __init__(self, source: ParsedSource, modules: Mapping[str, ParsedSource] | None = None) -> None:
        self.source = source
        self.modules = {path: MutantWriter(each) for path, each in (modules or {}).items()}
        self._data = source.text.encode()
        self._starts = [match.start() for match in _LINE.finditer(self._data)]
        self._parents = {child: node for node in source.nodes for child in ast.iter_child_nodes(node)}

    def changed(self, mutant: Mutant) -> str | None:
        """Return the text of the changed file; None if the change would move other lines.

        The text of the mutated node is replaced, or that of the smallest enclosing node that can be rewritten. Before
        Python 3.12, for example, the syntax tree has no positions inside f-strings.
        """
        if mutant.path in self.modules:
            return self.modules[mutant.path].changed(replace(mutant, path=""))
        around = [mutant.place, *self._ancestors(mutant.place)]
        statement = next(each for each in around if isinstance(each, ast.stmt))
        mutant.make()
        try:
            wanted = _meaning(ast.unparse(mutant.other if statement is mutant.place else statement))
            for place in around[: around.index(statement) + 1]:
                if isinstance(place, ast.stmt) and (hasattr(place, "body") or isinstance(place, ast.Match)):
                    break  # rewriting a whole block would lose its comments
                for text in _written(place, mutant.other if place is mutant.place else place):
                    if self._alone(statement, place, text) == wanted:
                        start, end = self._span(place)
                        return (self._data[:start] + text.encode() + self._data[end:]).decode()
        finally:
            mutant.undo()
        return None

    def _alone(self, statement: ast.stmt, place: ast.expr | ast.stmt, text: str) -> str | None:
        """Return the `_meaning` of a statement in which `text` replaces the node `place`; None for invalid Python."""
        (first, last), (start, end) = self._span(statement), self._span(place)
        line = self._starts[bisect.bisect_right(self._starts, first) - 1]
        indent = self._data[line:first]
        if indent.strip():  # after a colon or a semicolon
            indent = b" " * len(indent)
        head = b"if 1:\n" + indent if indent else b""
        if isinstance(statement, ast.If) and self._data.startswith(b"elif", first):
            first += len(b"el")
        return _meaning((head + self._data[first:start] + text.encode() + self._data[end:last]).decode(), bool(indent))

    def _ancestors(self, node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
        """Yield the expressions and statements around a node, innermost first."""
        while node in self._parents:
            node = self._parents[node]
            if isinstance(node, ast.expr | ast.stmt):
                yield node

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the byte offsets at which a node begins and ends. A definition begins at its first decorator."""
        decorators = getattr(node, "decorator_list", [])
        line = decorators[0].lineno if decorators else node.lineno
        last, column = node.end_lineno or line, node.end_col_offset or 0  # the parser always sets both
        return self._starts[line - 1] + node.col_offset, self._starts[last - 1] + column


def _meaning(text: str, indented: bool = False) -> str | None:
    """Return a statement's syntax tree as text, without positions, or None for invalid Python.

    Args:
        indented: Whether to parse the statement in the body of an `if`.
    """
    try:
        (statement,) = parse_source(text).body
    except (SyntaxError, ValueError):
        return None
    if indented:
        if not isinstance(statement, ast.If) or len(statement.body) != 1 or statement.orelse:
            return None
        statement = statement.body[0]
    return ast.dump(statement)


def _written(node: ast.expr | ast.stmt, new: ast.AST) -> Iterator[str]:
    """Yield source texts of `new` that have as many lines as `node` and may replace it."""
    text = ast.unparse(new)
    missing = (node.end_lineno or node.lineno) - node.lineno - text.count("\n")
    if missing < 0:
        return
    lines = "\n" * missing
    if isinstance(node, ast.expr):
        if isinstance(new, _ATOMS) and not lines:
            yield text
        yield f"({text}{lines})"
    yield f"{text}{lines}"

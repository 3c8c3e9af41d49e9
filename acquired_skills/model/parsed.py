"""`ParsedProposal`: a proposal with its sources, parsed once for all stages of its admission."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from acquired_skills.model.proposal import Proposal
from acquired_skills.model.script_block import ScriptBlock, read_script_block

_ATTEMPTS = 20
_MAX_NESTING = 100  # levels of a syntax tree; `ast.unparse` and `copy.deepcopy` exceed Python's limit at about 160


def parse_source(source: str | bytes) -> ast.Module:
    """Parse a module.

    In CPython 3.11, threads that parse at the same time may cause a SystemError (python/cpython#106905). The source is
    then parsed again.

    Raises:
        SyntaxError: The source is not valid Python.
        ValueError: The source contains null bytes.
        RecursionError: The source is nested too deeply.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)


def too_deep(tree: ast.Module) -> str:
    """Return what to change if a syntax tree is nested too deeply for the stages of an admission; otherwise ""."""
    level: list[ast.AST] = [tree]
    for _ in range(_MAX_NESTING):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return ""
    line = next((node.lineno for node in level if isinstance(node, ast.expr | ast.stmt)), None)
    where = f"Line {line} is nested" if line else "The source is nested"
    return (
        f"{where} more than {_MAX_NESTING} levels deep, as in a long chain of `+` or `elif`. Split it up, or use a "
        "loop or a table."
    )


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """A Python source and its syntax tree.

    Attributes:
        imports: The top-level modules that the source imports, also inside functions.
        nodes: Every node of the tree, in the order of `ast.walk`.
    """

    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    imports: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> "ParsedSource":
        """Parse a source.

        Raises:
            SyntaxError, ValueError, RecursionError: As in `parse_source`.
        """
        tree = parse_source(text)
        nodes = tuple(ast.walk(tree))
        return cls(text, tree, nodes, frozenset(_imported(nodes)))


@dataclass(frozen=True, slots=True)
class ParsedProposal:
    """A proposal with its parsed code and tests, and the script block (PEP 723) of its code.

    Attributes:
        notes: Sentences for the author about what was changed in the proposal.
        modules: The parsed Python modules among its extra files, by path.
        reference: The second implementation, if there is one.
    """

    proposal: Proposal
    code: ParsedSource
    tests: ParsedSource
    block: ScriptBlock
    notes: tuple[str, ...] = ()
    modules: Mapping[str, ParsedSource] = field(default_factory=dict)
    reference: ParsedSource | None = None

    @property
    def nodes(self) -> Iterator[ast.AST]:
        """Every node of the code and of its extra modules."""
        return chain(self.code.nodes, *(each.nodes for each in self.modules.values()))

    @property
    def imports(self) -> frozenset[str]:
        """The top-level modules that the code and its extra modules import."""
        return self.code.imports.union(*(each.imports for each in self.modules.values()))

    @classmethod
    def parse(cls, proposal: Proposal) -> "ParsedProposal":
        """Parse a proposal.

        Raises:
            SyntaxError: The code, an extra module, the tests or the reference is not valid Python.
            BlockError: The script block of the code is invalid.
        """
        code, tests = ParsedSource.parse(proposal.code), ParsedSource.parse(proposal.tests)
        files = proposal.files.items()
        modules = {path: ParsedSource.parse(text) for path, text in files if path.endswith(".py")}
        reference = ParsedSource.parse(proposal.reference) if proposal.reference else None
        block = read_script_block(proposal.code)
        return cls(proposal, code, tests, block, modules=modules, reference=reference)


def _imported(nodes: tuple[ast.AST, ...]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found

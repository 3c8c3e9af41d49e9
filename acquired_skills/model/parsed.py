"""`ParsedProposal`: a proposal whose sources are parsed, once, for every stage of its admission."""

import ast
from dataclasses import dataclass

from acquired_skills.model.parsing import parse_source
from acquired_skills.model.proposal import Proposal
from acquired_skills.model.script_block import ScriptBlock, read_script_block


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """A Python source and its syntax tree.

    Attributes:
        imports: top-level modules that it imports anywhere.
        nodes: every node of the tree, in the order of `ast.walk`.
    """

    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    imports: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> "ParsedSource":
        """Parse a source. Raises what `parse_source` raises."""
        tree = parse_source(text)
        nodes = tuple(ast.walk(tree))
        return cls(text, tree, nodes, frozenset(_imported(nodes)))


@dataclass(frozen=True, slots=True)
class ParsedProposal:
    """A proposal with its parsed code and tests, and the script block of its code."""

    proposal: Proposal
    code: ParsedSource
    tests: ParsedSource
    block: ScriptBlock

    @classmethod
    def parse(cls, proposal: Proposal) -> "ParsedProposal":
        """Parse a proposal.

        Raises:
            SyntaxError: the code or the tests are not Python.
            BlockError: the script block of the code is invalid.
        """
        code, tests = ParsedSource.parse(proposal.code), ParsedSource.parse(proposal.tests)
        return cls(proposal, code, tests, read_script_block(proposal.code))


def _imported(nodes: tuple[ast.AST, ...]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found

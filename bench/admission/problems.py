"""The problems of MBPP as proposals of skills, with tests of different strength.

A problem has a reference solution, asserts, and probe inputs that show whether another program behaves differently.
"""

import ast
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.static_checks import check

HELP = (
    "admission needs --data DIR, a folder with problems.jsonl: MBPP as cleaned by EvalPlus "
    "(https://github.com/evalplus/evalplus), one problem a line: entry_point, code, tests, test_imports, probe_inputs."
)
FULL, FIRST, EXAMPLE = "full", "first", "example"
TESTS: Mapping[str, str] = {
    FULL: "every assert is a test",
    FIRST: "only the first assert is a test",
    EXAMPLE: "the first assert is a test, and the second an example in the docstring",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One programming problem.

    Attributes:
        data: The problem's line of the data file, decoded.
    """

    data: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The id of the problem in the data."""
        return str(self.data["id"])

    @property
    def name(self) -> str:
        """The name of the function that the problem asks for."""
        return str(self.data["entry_point"])

    @property
    def asserts(self) -> list[str]:
        """The asserts of the problem, as source text."""
        return [line.strip() for line in self.data["tests"]]

    @property
    def imports(self) -> list[str]:
        """The imports that the problem's asserts and the arguments of its calls need."""
        found = ast.parse(self.data["code"]).body
        return [
            *self.data["test_imports"],
            *(ast.unparse(n) for n in found if isinstance(n, ast.Import | ast.ImportFrom)),
        ]

    def proposal(self, source: str, tests: str) -> Proposal:
        """Return a solution as a proposal.

        Args:
            tests: A key of `TESTS`.
        """
        source = _acceptable(self.name, source)
        chosen = self.asserts if tests == FULL else self.asserts[:1]
        if tests == EXAMPLE:
            source = self._with_example(source)
        cases = (f"def test_{i}():\n    {line}\n" for i, line in enumerate(chosen))
        return self.proposed(source, "\n\n".join(cases))

    def proposed(self, source: str, tests: str) -> Proposal:
        """Return a proposal with these tests; an import of the skill is added to them."""
        head = "\n".join([f"from {self.name} import {self.name}", *self.imports])
        return Proposal(self.name, self.data["prompt"], source, f"{head}\n\n\n{tests}")

    def _with_example(self, source: str) -> str:
        """Add a docstring whose example is the second assert, if that compares a call with a value."""
        lines = [self.data["prompt"]]
        for line in self.asserts[1:2]:
            node = ast.parse(line).body[0]
            if (
                isinstance(node, ast.Assert)
                and isinstance(node.test, ast.Compare)
                and isinstance(node.test.ops[0], ast.Eq)
                and is_call_of(node.test.left, self.name)
            ):
                lines += ["", f">>> {ast.unparse(node.test.left)}", ast.unparse(node.test.comparators[0])]
        tree = ast.parse(source)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == self.name and ast.get_docstring(node) is None:
                node.body.insert(0, ast.Expr(ast.Constant("\n".join(lines))))
        return ast.unparse(ast.fix_missing_locations(tree))


def read_problems(folder: Path, rounds: int | None, seed: int) -> list[Problem]:
    """Return the problems of a folder.

    Args:
        rounds: The number of problems to choose at random, or None for all.
    """
    problems = [Problem(json.loads(line)) for line in (folder / "problems.jsonl").read_text().splitlines()]
    return random.Random(seed).sample(problems, min(rounds, len(problems))) if rounds else problems


def is_call_of(node: ast.AST, name: str) -> bool:
    """Return whether the node is a call of the function with this name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _acceptable(name: str, source: str) -> str:
    """Return the source as it is if admission accepts parameters without type hints; otherwise with hints."""
    hinted = _add_type_hints(source, name)
    return source if _complaints(name, source) == _complaints(name, hinted) else hinted


def _complaints(name: str, source: str) -> list[str]:
    proposal = Proposal(name, "A solution of a problem.", source, f"from {name} import {name}\n\ndef test_it(): pass\n")
    try:
        check(proposal, frozenset())
    except SkillRefused as refused:
        return [problem.text for problem in refused.problems]
    return []


def _add_type_hints(source: str, name: str) -> str:
    """Annotate every parameter of the function with `object`, since the data has no type hints."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            for each in node.args.args:
                each.annotation = each.annotation or ast.Name("object", ast.Load())
    return ast.unparse(ast.fix_missing_locations(tree))

"""Proposals of skills, and the refusal of one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Part = Literal[
    "name",
    "description",
    "code",
    "dependencies",
    "destinations",
    "tests",
    "examples",
    "schema",
    "red",
    "green",
    "replay",
    "mutants",
    "duplicate",
    "limits",
    "version",
    "pipeline",
    "cases",
]

DEFAULT_TIMEOUT_S = 30.0
OTHER_KIND = "its tests cannot be tried on this one. Choose another name, or say `breaking=true`."
MAX_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed skill.

    Attributes:
        code: one Python file with a public function called `name`; its PEP 723 block declares packages and destinations
            (`acquired_skills.model.script_block`).
        tests: a pytest module that imports the function by that name.
        examples: requests in users' words that the skill should answer; retrieval uses them.
        breaking: a new version need not pass the tests of the version before it.
        timeout_s: wall time that one call of the skill may take, in seconds.
        provenance: who proposes it and how (`acquired_skills.model.provenance`). Only kept with the skill.
    """

    name: str
    description: str
    code: str
    tests: str
    examples: tuple[str, ...] = ()
    breaking: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    provenance: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProposalProblem:
    """One thing to change. text: what is wrong and what to change, for the author of the proposal."""

    part: Part
    text: str


class SkillRefused(Exception):
    """A proposal was not admitted. `problems` has everything that was found, at least one problem."""

    def __init__(self, name: str, problems: Sequence[ProposalProblem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        count = f"{len(self.problems)} things" if len(self.problems) > 1 else "one thing"
        lines = [f"{i}. [{problem.part}] {problem.text}" for i, problem in enumerate(self.problems, 1)]
        super().__init__("\n".join([f"`{name[:80]}` was not admitted: {count} to change.", *lines]))

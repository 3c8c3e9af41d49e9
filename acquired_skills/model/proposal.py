"""What an agent hands in, and what it hears when it is not good enough."""

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
    """A skill as proposed.

    code: one Python file with a public function called `name`; its PEP 723 block declares packages and destinations
    (`acquired_skills.model.script_block`). tests: a pytest module that imports it by that name.
    examples: requests, in people's words, that the skill should answer; retrieval finds it by them.
    breaking: a new version that need not pass the tests of the version before it.
    timeout_s: wall time one call of the skill may take, seconds.
    provenance: who proposes it and how (`acquired_skills.model.provenance`); kept with the skill, and nothing else.
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
class Problem:
    """One thing to change. text: what is wrong and what to change, for whoever wrote the proposal."""

    part: Part
    text: str


class SkillRefused(Exception):
    """A proposal was not admitted; `problems` are all that were found, at least one."""

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        count = f"{len(self.problems)} things" if len(self.problems) > 1 else "one thing"
        lines = [f"{i}. [{problem.part}] {problem.text}" for i, problem in enumerate(self.problems, 1)]
        super().__init__("\n".join([f"`{name[:80]}` was not admitted: {count} to change.", *lines]))

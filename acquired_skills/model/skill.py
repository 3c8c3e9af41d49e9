"""`Skill`: everything known about one admitted skill except its source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from acquired_skills.model.names import folder_name
from acquired_skills.model.proposal import DEFAULT_TIMEOUT_S
from sandbox.contract import Language

HINT = r"[\w.\[\], |]{1,200}"  # an inferred hint: no parentheses, so that it cannot call anything


class SkillError(Exception):
    """A request about skills cannot be fulfilled. The message says what failed, for which skill, and what to do."""


class SkillMissing(SkillError):
    """The skill does not exist."""


class SkillChanged(SkillError):
    """Another process changed the skill in the meantime; nothing was written."""


class SkillDamaged(SkillError):
    """A skill folder cannot be used. The message names the file and the fault."""


class NotAdmitted(SkillDamaged):
    """A folder contains no skill that was admitted here. Nothing in the folder is run or changed."""


class NotSigned(NotAdmitted):
    """A skill folder has no trusted signature, but signatures are required."""


class SkillUnsignable(SkillError):
    """Nothing was written because it could not be signed. The message says why and what to do."""


class SkillState(StrEnum):
    """The state of a skill. Only skills on probation and active skills are offered. The others are only stored."""

    PROBATION = "probation"
    ACTIVE = "active"
    QUARANTINED = "quarantined"
    DISABLED = "disabled"

    @property
    def listed(self) -> bool:
        return self in (SkillState.PROBATION, SkillState.ACTIVE)


class SkillKind(StrEnum):
    """The kind of a skill's program.

    A Python function, a Node function or a Bash script runs in a box. The program of a composed skill is a pipeline of
    tool calls.
    """

    CODE = "code"
    COMPOSED = "composed"
    NODE = "node"
    BASH = "bash"

    @classmethod
    def of(cls, language: Language) -> "SkillKind":
        """Return the kind of a program in this language."""
        return cls.CODE if language is Language.PYTHON else cls(language.value)

    @property
    def language(self) -> Language:
        """The language of a program of this kind; Python for pipelines, too."""
        return Language(self.value) if self in (SkillKind.NODE, SkillKind.BASH) else Language.PYTHON

    def files(self, name: str) -> tuple[str, str]:
        """Return the paths of the program and the tests of a skill of this name, relative to its folder."""
        if self is SkillKind.CODE:
            return f"scripts/{name}.py", f"tests/test_{name}.py"
        return f"scripts/{name}{_SUFFIXES[self]}", f"tests/{name}.json"


_SUFFIXES = {SkillKind.COMPOSED: ".json", SkillKind.NODE: ".mjs", SkillKind.BASH: ".sh"}


@dataclass(frozen=True, slots=True)
class Skill:
    """One version of one skill, as its folder describes it.

    Attributes:
        parameters: JSON Schema of the arguments.
        plain: Whether the arguments and the result are plain JSON and need no conversion.
        imports: Top-level modules that the code imports.
        created: The time of creation in UTC, ISO 8601.
        tests: The number of tests that proved the skill.
        dependencies, destinations: The packages and destinations that its code declares; destinations are canonical
            `host:port`.
        environment: The requirements of the environment in which the skill was proved and runs.
        timeout_s: The time limit of one call, in seconds of wall time.
        admission: The admission report (`acquired_skills.proof.admission_report`).
        provenance: Who proposed it and how (`acquired_skills.model.provenance`).
        calls: Names of the tools that the skill calls, sorted: those of a pipeline, or those that its code declares.
        effects: The combined effects of those tools (`acquired_skills.model.effects`); empty if the skill is not a
            composed skill.
        returns: JSON Schema of the result; None if it is unknown.
        inferred: Inferred type hints of the parameters that have none in the code
            (`acquired_skills.in_box.inferred_hints`).
        extra: The SHA-256 of each extra file, by path relative to the program.
    """

    name: str
    version: int
    state: SkillState
    description: str
    parameters: Mapping[str, Any]
    plain: bool
    imports: tuple[str, ...]
    created: str
    code_sha256: str
    tests_sha256: str
    tests: int
    examples: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    timeout_s: float = DEFAULT_TIMEOUT_S
    admission: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    kind: SkillKind = SkillKind.CODE
    calls: tuple[str, ...] = ()
    effects: Mapping[str, Any] = field(default_factory=dict)
    returns: Mapping[str, Any] | None = None
    inferred: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        return folder_name(self.name)

    @property
    def files(self) -> tuple[str, str]:
        """The paths of the skill's program and tests, relative to its folder."""
        return self.kind.files(self.name)

    @property
    def extra_paths(self) -> dict[str, str]:
        """The path of each extra file relative to the skill's folder, by its path relative to the program."""
        folder = self.files[0].rpartition("/")[0]
        return {path: f"{folder}/{path}" for path in self.extra}

"""`Skill`: everything known about one admitted skill except its source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from acquired_skills.model.names import folder_name
from acquired_skills.model.proposal import DEFAULT_TIMEOUT_S


class SkillError(Exception):
    """A request about skills cannot be fulfilled. The message says what failed, for which skill, and what to do."""


class SkillMissing(SkillError):
    """The skill does not exist."""


class SkillChanged(SkillError):
    """Another process changed the skill in the meantime; nothing was written."""


class SkillDamaged(SkillError):
    """A skill folder cannot be used. The message names the file and the fault."""


class NotAdmitted(SkillDamaged):
    """A folder that was never admitted here. It is neither run nor changed."""


class NotSigned(NotAdmitted):
    """A folder without a trusted signature, where signatures are required."""


class SkillUnsignable(SkillError):
    """Nothing was written because it could not be signed. The message says why and what to do."""


class SkillState(StrEnum):
    """The state of a skill. Skills in probation and active skills are listed; the others are kept but not offered."""

    PROBATION = "probation"
    ACTIVE = "active"
    QUARANTINED = "quarantined"
    DISABLED = "disabled"

    @property
    def listed(self) -> bool:
        return self in (SkillState.PROBATION, SkillState.ACTIVE)


class SkillKind(StrEnum):
    """The kind of a skill's program: a Python function that runs in a box, or a pipeline of tool calls."""

    CODE = "code"
    COMPOSED = "composed"

    def files(self, name: str) -> tuple[str, str]:
        """Return the paths of the program and the tests of a skill of this name, relative to its folder."""
        if self is SkillKind.COMPOSED:
            return f"scripts/{name}.json", f"tests/{name}.json"
        return f"scripts/{name}.py", f"tests/test_{name}.py"


@dataclass(frozen=True, slots=True)
class Skill:
    """One version of one skill, as its folder describes it.

    Attributes:
        parameters: JSON Schema of the arguments.
        plain: arguments and value are plain JSON and need no conversion.
        imports: top-level modules that the code imports.
        created: UTC, ISO 8601.
        tests: how many tests proved it.
        dependencies, destinations: as its code declares them; `host:port`, canonical.
        environment: the requirements it was proved with and runs with.
        timeout_s: wall time that one call may take, in seconds.
        admission: the admission report, in counts.
        provenance: who proposed it and how (`acquired_skills.model.provenance`).
        calls: names of the tools that a composed skill calls, sorted.
        effects: the combined effects of those tools (`acquired_skills.model.effects`); empty for code.
        returns: JSON Schema of the value; None when unknown.
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

    @property
    def folder(self) -> str:
        return folder_name(self.name)

    @property
    def files(self) -> tuple[str, str]:
        """Paths of its program and its tests, relative to its folder."""
        return self.kind.files(self.name)

"""`Skill`: what is known of one admitted skill, without its source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from acquired_skills.model.names import folder_name
from acquired_skills.model.proposal import DEFAULT_TIMEOUT_S


class SkillError(Exception):
    """Something asked of the skills cannot be done; the message says what, of which skill, and what to do."""


class SkillMissing(SkillError):
    """There is no such skill."""


class SkillChanged(SkillError):
    """Another process changed the skill meanwhile; nothing was written."""


class SkillDamaged(SkillError):
    """A skill folder that cannot be used; the message names the file and what is wrong with it."""


class NotOurs(SkillDamaged):
    """A folder that never passed the gate here, so it is not run and not touched."""


class NotSigned(NotOurs):
    """A folder that nobody signed whom we trust, where that is asked for."""


class SkillUnsignable(SkillError):
    """Nothing was written, since it could not be signed; the message says why and what to do."""


class SkillState(StrEnum):
    """Where a skill is in its life. Probation and active are listed, the others are kept but not offered."""

    PROBATION = "probation"
    ACTIVE = "active"
    QUARANTINED = "quarantined"
    DISABLED = "disabled"

    @property
    def listed(self) -> bool:
        return self in (SkillState.PROBATION, SkillState.ACTIVE)


class SkillKind(StrEnum):
    """What a skill's program is: a Python function that runs in a box, or a pipeline of calls of other tools."""

    CODE = "code"
    COMPOSED = "composed"

    def files(self, name: str) -> tuple[str, str]:
        """Program and tests of a skill of this name, below its folder."""
        if self is SkillKind.COMPOSED:
            return f"scripts/{name}.json", f"tests/{name}.json"
        return f"scripts/{name}.py", f"tests/test_{name}.py"


@dataclass(frozen=True, slots=True)
class Skill:
    """One version of one skill, as its folder tells it.

    parameters: JSON Schema of the arguments. plain: arguments and value are JSON as they are, without conversion.
    imports: top-level modules the code imports. created: UTC, ISO 8601. tests: how many proved it.
    dependencies, destinations: as its code declares them; `host:port`, canonical. environment: the requirements it was
    proved with and runs with. timeout_s: wall time one call may take, seconds. admission: the gate's report, in counts.
    provenance: who proposed it and how, in words (`acquired_skills.model.provenance`).
    returns: JSON Schema of the value; None where it is not known.
    calls: names of the tools that a composed one calls, sorted. effects: what all of them together may do and take
    (`acquired_skills.model.effects`); empty for code.
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
        """Its program and its tests, below its folder."""
        return self.kind.files(self.name)

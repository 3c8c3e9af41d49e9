"""Formats skills and their statistics as plain values, for tools and for the command line."""

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import TypedDict

from acquired_skills.model.program import SkillProgram
from acquired_skills.model.skill import Skill
from acquired_skills.proof.admission_report import open_questions
from acquired_skills.store.instructions import Instruction
from acquired_skills.store.totals import VersionStats

INSTRUCTIONS = "instructions"  # shown in place of a state


Stats = Mapping[tuple[str, int], VersionStats]  # statistics by name and version


def by_version(stats: Iterable[VersionStats]) -> Stats:
    """Index statistics by the name and the version of the skill, for `summary`."""
    return {(one.name, one.version): one for one in stats}


class Summary(TypedDict):
    """One row of a list of skills and instructions.

    Attributes:
        version: The current version; None for instructions.
        success_rate: The share of counted calls that succeeded; None before the first counted call.
        open_questions: The number of unanswered questions from admission. Until it is 0, the skill stays on probation.
    """

    name: str
    version: int | None
    state: str
    description: str
    calls: int
    success_rate: float | None
    open_questions: int


class Numbers(TypedDict):
    """Statistics of one version.

    Attributes:
        mean_ms: The mean latency of successful calls in milliseconds.
        last: The time of the last call in UTC, ISO 8601.
    """

    name: str
    version: int
    calls: int
    successes: int
    failures: int
    uncounted: int
    success_rate: float | None
    mean_ms: float | None
    last: str


def summary(skill: Skill, stats: Stats | None = None) -> Summary:
    """Return the row for a skill, with its state and the statistics of its current version."""
    own = (stats or {}).get((skill.name, skill.version))
    return {
        "name": skill.name,
        "version": skill.version,
        "state": skill.state.value,
        "description": skill.description,
        "calls": own.calls if own else 0,
        "success_rate": success_rate(own),
        "open_questions": open_questions(skill.admission),
    }


def text_summary(one: Instruction) -> Summary:
    """Return the row for instructions, which have neither a version nor calls."""
    return {
        "name": one.name,
        "version": None,
        "state": INSTRUCTIONS,
        "description": one.description,
        "calls": 0,
        "success_rate": None,
        "open_questions": 0,
    }


def marked_state(row: Summary) -> str:
    """Return the state of a skill, with the number of its open questions, if any."""
    left = row["open_questions"]
    return f"{row['state']}, {left} open question{'' if left == 1 else 's'}" if left else row["state"]


def text_details(one: Instruction) -> dict[str, Any]:
    """Return everything known about instructions."""
    return {**text_summary(one), "text": one.text, "files": list(one.files)}


def text_in_full(one: Instruction) -> str:
    """Format instructions for reading, with a note that they are not a tool."""
    others = ""
    if one.files:
        others = f"\nOther files: {', '.join(map(ascii, one.files))}."
    return (
        f"{one.name}: imported instructions, not a tool. They were not proved here.{others}\n\n"
        f"{one.description}\n\n{one.text}"
    )


def details(skill: Skill, program: SkillProgram, tests: bytes, stats: Iterable[VersionStats]) -> dict[str, Any]:
    """Return everything known about one skill, including its source."""
    return {
        **summary(skill, by_version(stats)),
        "parameters": skill.parameters,
        "returns": skill.returns,
        "kind": skill.kind.value,
        "calls": list(skill.calls),
        "examples": list(skill.examples),
        "imports": list(skill.imports),
        "dependencies": list(skill.dependencies),
        "destinations": list(skill.destinations),
        "created": skill.created,
        "timeout_s": skill.timeout_s,
        "code": program.code.decode(),
        "files": {path: data.decode() for path, data in program.extra.items()},
        "tests": tests.decode(),
        "admission": skill.admission,
        "provenance": dict(skill.provenance),
        "sha256": {"code": skill.code_sha256, "tests": skill.tests_sha256, "files": dict(skill.extra)},
    }


def numbers(one: VersionStats) -> Numbers:
    """Return the statistics of one version."""
    return {
        "name": one.name,
        "version": one.version,
        "calls": one.calls,
        "successes": one.successes,
        "failures": one.failures,
        "uncounted": one.uncounted,
        "success_rate": success_rate(one),
        "mean_ms": None if one.mean_ms is None else round(one.mean_ms, 1),
        "last": one.last,
    }


def success_rate(one: VersionStats | None) -> float | None:
    """Return the share of counted calls that succeeded, or None before the first counted call."""
    judged = one.successes + one.failures if one else 0
    return round(one.successes / judged, 3) if one and judged else None


def needs(skill: Skill) -> str:
    """Format the packages, connections and tools that a skill needs in one line; "" if it needs none."""
    parts = [
        f"{what}: {', '.join(found)}"
        for what, found in (
            ("packages", skill.dependencies),
            ("connects to", skill.destinations),
            ("calls", skill.calls),
        )
        if found
    ]
    return "; ".join(parts)


def _kind(schema: Mapping[str, Any]) -> str:
    kinds = [str(each.get("type", "object" if "$ref" in each else "any")) for each in schema.get("anyOf", (schema,))]
    return "any" if "any" in kinds else " | ".join(dict.fromkeys(kinds))


def signature(skill: Skill) -> str:
    """Format the signature of a skill in one line: ``roman_numeral(number: integer, case: string = "upper")``."""
    required = skill.parameters.get("required", [])
    parts = []
    for name, schema in skill.parameters.get("properties", {}).items():
        kind = _kind(schema)
        default = "" if name in required else f" = {schema.get('default')!r}"
        parts.append(f"{name}: {kind}{default}")
    return f"{skill.name}({', '.join(parts)})"

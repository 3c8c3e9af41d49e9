"""Formats skills and their statistics as plain values, for tools and for the command line."""

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import TypedDict

from acquired_skills.model.skill import Skill
from acquired_skills.store.instructions import Instruction
from acquired_skills.store.totals import VersionStats

INSTRUCTIONS = "instructions"  # shown as the state


Stats = Mapping[tuple[str, int], VersionStats]  # by name and version


def by_version(stats: Iterable[VersionStats]) -> Stats:
    """Index statistics for `summary`."""
    return {(one.name, one.version): one for one in stats}


class Summary(TypedDict):
    """One row of a list. version: None for instructions. success_rate: None before the first counted call."""

    name: str
    version: int | None
    state: str
    description: str
    calls: int
    success_rate: float | None


class Numbers(TypedDict):
    """Statistics of one version. mean_ms: of successful calls. last: UTC, ISO 8601."""

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
    """Return one row: what the skill is, its state, and the statistics of its current version."""
    own = (stats or {}).get((skill.name, skill.version))
    return {
        "name": skill.name,
        "version": skill.version,
        "state": skill.state.value,
        "description": skill.description,
        "calls": own.calls if own else 0,
        "success_rate": success_rate(own),
    }


def text_summary(one: Instruction) -> Summary:
    """Return one row for instructions, which have no version and no calls."""
    return {
        "name": one.name,
        "version": None,
        "state": INSTRUCTIONS,
        "description": one.description,
        "calls": 0,
        "success_rate": None,
    }


def text_details(one: Instruction) -> dict[str, Any]:
    """Return everything about instructions."""
    return {**text_summary(one), "text": one.text, "files": list(one.files)}


def text_in_full(one: Instruction) -> str:
    """Format instructions for reading, with a note on what they are."""
    others = f"\nIts other files, which nothing here runs: {', '.join(map(ascii, one.files))}." if one.files else ""
    return (
        f"{one.name}: imported instructions, not a tool. They were not proved here.{others}\n\n"
        f"{one.description}\n\n{one.text}"
    )


def details(skill: Skill, code: bytes, tests: bytes, stats: Iterable[VersionStats]) -> dict[str, Any]:
    """Return everything about one skill, including its source."""
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
        "code": code.decode(),
        "tests": tests.decode(),
        "admission": skill.admission,
        "provenance": dict(skill.provenance),
        "sha256": {"code": skill.code_sha256, "tests": skill.tests_sha256},
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
    """Return the share of counted calls that succeeded; None before the first."""
    judged = one.successes + one.failures if one else 0
    return round(one.successes / judged, 3) if one and judged else None


def needs(skill: Skill) -> str:
    """Format what it needs besides its code in one line; "" for nothing."""
    parts = [
        f"{what}: {', '.join(found)}"
        for what, found in (("packages", skill.dependencies), ("connects to", skill.destinations))
        if found
    ]
    return "; ".join(parts)


def signature(skill: Skill) -> str:
    """Format its signature in one line: ``roman_numeral(number: integer, case: string = "upper")``."""
    required = skill.parameters.get("required", [])
    parts = []
    for name, schema in skill.parameters.get("properties", {}).items():
        kind = schema.get("type", "value")
        default = "" if name in required else f" = {schema.get('default')!r}"
        parts.append(f"{name}: {kind}{default}")
    return f"{skill.name}({', '.join(parts)})"

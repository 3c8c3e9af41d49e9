"""Times the assembly of a turn's tool list, half static tools and half skills. One skill changes before each run.

It measures `engine.turn` alone, with sources in memory: retrieval and the skill folders are not involved. "cold" means
an assembly with empty caches, and "wire" the conversion of the list to OpenAI's format.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console

from bench.table import show
from bench.timing import Series
from engine.contract.allowed import Allowed
from engine.contract.source import Tool
from engine.contract.spec import Origin, ToolSpec
from engine.contract.turn import Turn
from engine.formats.openai import tools_to_openai_format
from engine.registry.static import StaticSource
from engine.turn.assembly import Assembly

SIZES = (50, 1000, 10_000)
RETRIEVED = 8
_PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "the file, relative to the workspace"},
        "limit": {"type": "integer", "default": 10},
    },
    "required": ["path"],
}
_POLICY = Turn(permission="user", allowed=Allowed.of(["tool_*", "skill_*"]), modules=frozenset({"mail"}))


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool that is listed but never called."""

    spec: ToolSpec

    async def run(self, ctx: Any, arguments: Any) -> None:
        """Do nothing. The benchmark never calls it."""


@dataclass(slots=True)
class Skills:
    """A source that, like the source of acquired skills, offers a few tools for a query, and all without a query."""

    listed: tuple[Tool, ...]
    name: str = "skills"
    changes: int = 0
    _by_name: dict[str, Tool] = field(default_factory=dict)

    def change_one(self) -> None:
        """Replace one tool with another version of it."""
        self.changes += 1
        at = self.changes * 7 % len(self.listed)
        changed = Listed(replace(self.listed[at].spec, version=str(self.changes)))
        self.listed = (*self.listed[:at], changed, *self.listed[at + 1 :])

    async def tools(self, turn: Turn) -> Sequence[Tool]:
        if turn.query is None:
            return self.listed
        at = self.changes % max(1, len(self.listed) - RETRIEVED)
        return list(self.listed[at : at + RETRIEVED])

    async def find(self, name: str) -> Tool | None:
        return self._by_name.get(name)


def bench(rounds: int, console: Console) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows, with times in milliseconds."""
    rows = asyncio.run(_run(rounds))
    for size in SIZES:
        fields = ("listed", "p50_ms", "p95_ms", "p99_ms", "ratio")
        title = f"The list of a turn, {size} tools, milliseconds"
        show(console, rows, str(size), title, *fields, ratio="ratio to first row")
    return rows


async def _run(rounds: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        static = StaticSource("static", [_made(f"tool_{number:05}", Origin.STATIC) for number in range(size // 2)])
        skills = Skills(tuple(_made(f"skill_{number:05}", Origin.ACQUIRED) for number in range(size // 2)))
        times: dict[str, list[float]] = {}
        listed: dict[str, int] = {}
        warm = Assembly()
        for number in range(-3, rounds):
            skills.change_one()
            for way, base, query, assembly in (
                ("new query, one changed skill", Turn(), f"query {number}", warm),
                ("the same, with an allow-list and modules", _POLICY, f"query {number}", warm),
                ("no query: all skills, one changed", Turn(), None, warm),
                ("new query, cold", Turn(), f"query {number}", Assembly()),
            ):
                began = time.perf_counter()
                found = await assembly.active_list((static, skills), replace(base, query=query))
                taken = time.perf_counter()
                wire = tools_to_openai_format(tool.spec for tool in found.tools)
                for key, seconds in ((way, taken - began), (f"{way}; wire alone", time.perf_counter() - taken)):
                    if number >= 0:
                        times.setdefault(key, []).append(seconds * 1e3)
                        listed[key] = len(wire)
        made = [Series(str(size), way, tuple(values)) for way, values in times.items()]
        rows += [_row(size, listed[each.way], each, made[0].p50) for each in made]
    return rows


def _made(name: str, origin: Origin) -> Tool:
    return Listed(ToolSpec(name, f"Does what {name} is for, and returns the result.", _PARAMETERS, origin=origin))


def _row(size: int, listed: int, series: Series, first: float) -> dict[str, Any]:
    return {
        "what": str(size),
        "way": series.way,
        "count": series.count,
        "listed": listed,
        "p50_ms": series.p50,
        "p95_ms": series.p95,
        "p99_ms": series.p99,
        "ratio": series.p50 / first,
    }

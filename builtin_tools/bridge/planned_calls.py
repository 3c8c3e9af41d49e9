"""`ProgramPlan`: the calls that a program in plan mode wants to make, and what it has read before."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.contract.canonical import digest

_MOST_SHOWN = 300  # characters of the arguments of a line


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A line of a plan. `readings` is how many calls that only read the program had made before."""

    number: int
    name: str
    arguments: Mapping[str, Any]
    readings: int

    def __str__(self) -> str:
        given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=True)}" for name, value in self.arguments.items())
        return f"{self.number}. {self.name}({given if len(given) <= _MOST_SHOWN else given[:_MOST_SHOWN] + '…'})"


@dataclass(frozen=True, slots=True)
class PlanReading:
    """A call that only reads, with a digest of its answer."""

    name: str
    arguments: Mapping[str, Any]
    answer: str


@dataclass(slots=True)
class ProgramPlan:
    """The calls of a program in plan mode, in order."""

    lines: list[PlannedCall] = field(default_factory=list)
    readings: list[PlanReading] = field(default_factory=list)

    def add(self, name: str, arguments: Mapping[str, Any]) -> int:
        """Add a line and return its number."""
        self.lines.append(PlannedCall(len(self.lines) + 1, name, arguments, len(self.readings)))
        return len(self.lines)

    def read(self, name: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Note a call that only reads."""
        self.readings.append(PlanReading(name, arguments, digest(answer)))

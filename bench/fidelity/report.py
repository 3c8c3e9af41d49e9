"""What one side recorded of one module, and where two sides differ."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

PASS = "pass"
_NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Case:
    """parts: subtests that did not pass, by description: (status, detail)."""

    status: str
    detail: str = ""
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def worst_new_part(self, other: "Case") -> tuple[str, str] | None:
        """A part that did not pass here although it passed there."""
        return next((found for part, found in self.parts.items() if part not in other.parts), None)


@dataclass(frozen=True, slots=True)
class Report:
    """loaded: "loaded", "skip" or "error". problem: why it did not run to its end, "" when it did.

    fixtures: what a set-up or tear-down of a class or of the module said.
    """

    loaded: str
    cases: Mapping[str, Case]
    fixtures: tuple[str, ...] = ()
    problem: str = ""

    @property
    def passed(self) -> Iterator[str]:
        return (name for name, case in self.cases.items() if case.status == PASS)

    def why_missing(self) -> str:
        """Why a case that ran elsewhere has no outcome here."""
        return " | ".join(filter(None, (self.problem, *self.fixtures))) or _NOT_RUN


def _entries(record: bytes) -> Iterator[dict[str, Any]]:
    """What can be read: a process that was killed, or that wrote to the wrong descriptor, may have spoilt a line."""
    for line in record.split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def parse(record: bytes, problem: str) -> Report:
    """problem: how the process ended, for a record without its last line."""
    entries = list(_entries(record))
    module: dict[str, Any] = next((entry for entry in entries if "module" in entry), {})
    done = any("done" in entry for entry in entries)
    cases = {
        entry["case"]: Case(
            entry["status"], entry["detail"], {part: (said[0], said[1]) for part, said in entry["parts"].items()}
        )
        for entry in entries
        if "case" in entry
    }
    fixtures = tuple(f"{entry['fixture']}: {entry['detail']}" for entry in entries if "fixture" in entry)
    loaded = module.get("module", "loaded" if entries else "error")
    if not done:
        problem = problem or "it ended before its last case"
    elif loaded != "loaded":
        problem = module["detail"]
    else:
        problem = ""
    return Report(loaded, cases, fixtures, problem)


def differences(outside: Report, inside: Report) -> dict[str, str]:
    """Cases that pass outside and not inside, each with what was said inside."""
    found = {}
    for name in outside.passed:
        case = inside.cases.get(name)
        if case is None:
            found[name] = inside.why_missing()
        elif case.status != PASS:
            found[name] = f"{case.status}: {case.detail}"
        elif part := case.worst_new_part(outside.cases[name]):
            found[name] = f"{part[0]}: {part[1]}"
    return found

"""The record of one module on one side, and the differences between two sides."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

PASS = "pass"
_NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Case:
    """The outcome of one case.

    Attributes:
        parts: (status, detail) of subtests that did not pass, by description.
    """

    status: str
    detail: str = ""
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def worst_new_part(self, other: "Case") -> tuple[str, str] | None:
        """Return a part that passed in `other` but not in this outcome, or None."""
        return next((found for part, found in self.parts.items() if part not in other.parts), None)


@dataclass(frozen=True, slots=True)
class Report:
    """The record of one module.

    Attributes:
        loaded: "loaded", "skip" or "error".
        problem: Why the module did not run to its end; "" if it did.
        fixtures: Failures of set-ups and tear-downs of classes and of the module.
    """

    loaded: str
    cases: Mapping[str, Case]
    fixtures: tuple[str, ...] = ()
    problem: str = ""

    @property
    def passed(self) -> Iterator[str]:
        return (name for name, case in self.cases.items() if case.status == PASS)

    def why_missing(self) -> str:
        """Return why a case that ran on the other side has no outcome on this side."""
        return " | ".join(filter(None, (self.problem, *self.fixtures))) or _NOT_RUN


def _entries(record: bytes) -> Iterator[dict[str, Any]]:
    """Yield the readable lines. A kill, or a test that writes to the wrong descriptor, may damage a line."""
    for line in record.split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def parse(record: bytes, problem: str) -> Report:
    """Parse a record.

    Args:
        problem: How the process ended, used if the last line of the record is missing.
    """
    entries = list(_entries(record))
    module: dict[str, Any] = next((entry for entry in entries if "module" in entry), {})
    done = any("done" in entry for entry in entries)
    cases = {
        entry["case"]: Case(
            entry["status"], entry["detail"], {part: (each[0], each[1]) for part, each in entry["parts"].items()}
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
    """Return the cases that pass outside but not inside, each with its outcome inside."""
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

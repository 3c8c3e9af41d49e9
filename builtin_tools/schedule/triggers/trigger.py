"""`Trigger`: computes the instants of a job. The four kinds are values that can be stored as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from builtin_tools.schedule.triggers.cron import CronTrigger
from builtin_tools.schedule.triggers.wall_time import SECOND, first_instant, local_time, moment_of
from engine.times.time_zones import known_zone


class Trigger(Protocol):
    """The instants at which a job runs, in strictly increasing order."""

    @property
    def zone(self) -> str:
        """The name of the time zone in which the trigger was stated."""
        ...

    def next_after(self, instant: int) -> int | None:
        """Return the first instant after the given one; None if there is none."""
        ...

    def describe(self) -> str:
        """Return a normalized description, such as ``"every 900 s"``."""
        ...


@dataclass(frozen=True, slots=True)
class OnceTrigger:
    """One instant."""

    at: int
    zone: str

    def next_after(self, instant: int) -> int | None:
        return self.at if instant < self.at else None

    def describe(self) -> str:
        return f"once at {moment_of(self.at, known_zone(self.zone)).isoformat(timespec='seconds')}"


@dataclass(frozen=True, slots=True)
class IntervalTrigger:
    """Instants at equal distances in elapsed time. Changes of the clocks do not affect them.

    Attributes:
        every: The distance in milliseconds.
        anchor: The instant from which the distances are counted. It is not an instant of the trigger itself.
    """

    every: int
    anchor: int
    zone: str

    def next_after(self, instant: int) -> int | None:
        steps = max((instant - self.anchor) // self.every, 0) + 1
        return self.anchor + steps * self.every

    def describe(self) -> str:
        return f"every {self.every / SECOND:g} s"


@dataclass(frozen=True, slots=True)
class DayTrigger:
    """The same wall-clock time every few days.

    Attributes:
        days: The number of days between two instants.
        first: The local time of the first instant, in ISO 8601 without a zone.
    """

    days: int
    first: str
    zone: str

    def next_after(self, instant: int) -> int | None:
        zone, first = known_zone(self.zone), datetime.fromisoformat(self.first)
        passed = (local_time(instant, zone).date() - first.date()).days // self.days
        steps = max(passed, 0)
        while True:
            found = first_instant(first + timedelta(days=steps * self.days), zone)
            if found > instant:
                return found
            steps += 1

    def describe(self) -> str:
        start = datetime.fromisoformat(self.first)
        return f"every {self.days} days at {start:%H:%M:%S} from {start:%Y-%m-%d} ({self.zone})"


AnyTrigger = CronTrigger | IntervalTrigger | DayTrigger | OnceTrigger


def trigger_to_json(trigger: AnyTrigger) -> dict[str, Any]:
    """Return a JSON object that `trigger_of_json` reads."""
    match trigger:
        case CronTrigger(expressions, zone):
            return {"kind": "cron", "expressions": list(expressions), "zone": zone}
        case IntervalTrigger(every, anchor, zone):
            return {"kind": "interval", "every": every, "anchor": anchor, "zone": zone}
        case DayTrigger(days, first, zone):
            return {"kind": "days", "days": days, "first": first, "zone": zone}
        case OnceTrigger(at, zone):
            return {"kind": "once", "at": at, "zone": zone}


def trigger_of_json(value: Mapping[str, Any]) -> AnyTrigger:
    """Return the trigger that `trigger_to_json` encoded."""
    match value["kind"]:
        case "cron":
            return CronTrigger(tuple(value["expressions"]), value["zone"])
        case "interval":
            return IntervalTrigger(value["every"], value["anchor"], value["zone"])
        case "days":
            return DayTrigger(value["days"], value["first"], value["zone"])
        case _:
            return OnceTrigger(value["at"], value["zone"])

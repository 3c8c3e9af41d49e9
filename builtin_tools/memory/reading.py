"""`read_fact`: extracts the statement, and the period in which it is true, from the text of a fact."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from builtin_tools.memory.entries import Statement
from builtin_tools.memory.statement_words import skeleton_of
from builtin_tools.memory.statements import Reading, read_statement
from engine.times.time_expressions import TimeRange, find_ranges

# key in the data of an entry: the time ranges that the text mentions, as pairs of seconds since the epoch
TIMES = "times"
_GENERIC = frozenset({"is", "possession"})
_PAST = re.compile(r"\b(?:was|were|did|had|went|came|met|told|said|bought|got|left|saw|took|made|gave|[a-z]{2,}ed)\b")
_BOUND = re.compile(r"^(?:since|from|in|on|at|until|till|between|during|before|after|by)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FactReading:
    """The information that was extracted from the text of a fact.

    Attributes:
        holds_from, holds_to: The period that the text states, in seconds since the epoch; None for an open end.
        instead_of: The old value that the text mentions, such as "Paris" in "moved from Paris to Rome".
    """

    statement: Statement | None
    holds_from: float | None
    holds_to: float | None
    instead_of: str
    skeleton: str
    data: Mapping[str, Any]


def read_fact(text: str, now: datetime, zone: ZoneInfo) -> FactReading:
    """Extract the statement, the period and the mentioned times from the text of a fact.

    Args:
        text: The text of the fact.
        now: When it was said.
        zone: The time zone for expressions such as "yesterday".
    """
    past = find_ranges(text, now, zone, "past")
    holds = _validity(text, past)
    shorter = _without(text, holds) if holds is not None else text
    read, whole = read_statement(shorter), read_statement(text)
    if holds is not None and _generic(read) and not _generic(whole):
        holds, read = None, whole  # the time is part of the statement, as in "was born in 1990"
    elif holds is None or read is None:
        holds, read = None, whole
    prefer_future = find_ranges(text, now, zone, "future") if past and not _PAST.search(text.lower()) else past
    times = [[_seconds(each.start), _seconds(each.end)] for each in prefer_future]
    return FactReading(
        read.statement if read is not None else None,
        _seconds(holds.start) if holds is not None else None,
        _seconds(holds.end) if holds is not None and _ends(holds) else None,
        read.instead_of if read is not None else "",
        skeleton_of(text),
        {TIMES: times} if times else {},
    )


def _generic(read: Reading | None) -> bool:
    return read is None or read.statement.attribute in _GENERIC


def _validity(text: str, ranges: list[TimeRange]) -> TimeRange | None:
    """Return the range at the beginning or end of a text that says when the fact is true; None if there is none."""
    for each in ranges:
        at = text.find(each.text)
        leads = not text[:at].strip(" ,").lower().removesuffix("as of").strip(" ,")
        trails = not text[at + len(each.text) :].strip(" .,!")
        if leads or (
            trails and (_BOUND.match(each.text) or not re.search(r"\b(?:to|is|was|on|for)$", text[:at].strip()))
        ):
            return each
    return None


def _ends(holds: TimeRange) -> bool:
    """Return whether the range states an end. "In 2021" only says when something began."""
    return bool(re.match(r"(?:until|till|before|from .+ (?:to|until|till|through)|between)\b", holds.text.lower()))


def _without(text: str, holds: TimeRange) -> str:
    at = text.find(holds.text)
    lead = re.sub(r"\bas of\s*$", "", text[:at], flags=re.IGNORECASE)
    return f"{lead}{text[at + len(holds.text) :]}".strip(" ,")


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()

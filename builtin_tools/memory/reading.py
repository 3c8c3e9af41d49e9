"""`read_fact`: turns what somebody said into an entry, with its statement and the time in which it holds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from builtin_tools.memory.entries import Statement
from builtin_tools.memory.statement_words import skeleton_of
from builtin_tools.memory.statements import Reading, read_statement
from builtin_tools.memory.time_expressions import TimeRange, find_ranges

TIMES = "times"  # the ranges that a text mentions, as pairs of seconds, in the data of an entry
_GENERIC = frozenset({"is", "possession"})
_PAST = re.compile(r"\b(?:was|were|did|had|went|came|met|told|said|bought|got|left|saw|took|made|gave|[a-z]{2,}ed)\b")
_BOUND = re.compile(r"^(?:since|from|in|on|at|until|till|between|during|before|after|by)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FactReading:
    """What was read from the text of a fact.

    Attributes:
        holds_from, holds_to: The interval that the text states, in seconds since the epoch.
        instead_of: The value that it says it replaces.
    """

    statement: Statement | None
    holds_from: float | None
    holds_to: float | None
    instead_of: str
    skeleton: str
    data: Mapping[str, Any]


def read_fact(text: str, now: datetime, zone: ZoneInfo) -> FactReading:
    """Read a fact.

    Args:
        text: What was said.
        now: When it was said.
        zone: The time zone in which expressions such as "yesterday" are meant.
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
    """Return the range that stands at the beginning or the end of a text and says when it holds."""
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
    """Return whether the range states an end. "In 2021" says when something began."""
    return bool(re.match(r"(?:until|till|before|from .+ (?:to|until|till|through)|between)\b", holds.text.lower()))


def _without(text: str, holds: TimeRange) -> str:
    at = text.find(holds.text)
    lead = re.sub(r"\bas of\s*$", "", text[:at], flags=re.IGNORECASE)
    return f"{lead}{text[at + len(holds.text) :]}".strip(" ,")


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()

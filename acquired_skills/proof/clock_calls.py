"""Recognizes skills that read the clock, and makes their calls at other times (GATE-6).

A test fixes the clock with the fixture `clock`. The call is then recorded with that time, as its ``clock``, and is
always repeated at the same time.
"""

import ast
import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace

from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.proof.answers import Data
from acquired_skills.proof.varied_calls import take_in_turn

_METHODS = frozenset(("now", "utcnow", "today"))
_FUNCTIONS = frozenset(("time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime"))
_ELAPSED = frozenset(("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"))
_HINTED = ("green", "replay")
_SHIFTS = (dt.timedelta(days=1), -dt.timedelta(days=1), dt.timedelta(hours=12), dt.timedelta(days=31))
HINT = (
    "The code reads the clock, so its results vary. Fix the time in the tests: write `def test_it(clock):` and "
    '`clock("2026-03-01T09:30")` before each call. Agents\' calls still use the real time.'
)
_ELAPSED_HINT = (
    "The code measures elapsed time, which differs in every run. Leave it out of the result, or let the caller pass "
    "the times as arguments."
)


def reads_clock(
    source: ParsedSource, functions: frozenset[str] = _FUNCTIONS, methods: frozenset[str] = _METHODS
) -> bool:
    """Return whether a source reads the wall clock, judging by the names that it uses."""
    if not source.imports & {"time", "datetime"}:
        return False
    for node in source.nodes:
        match node:
            case ast.Attribute(attr=name) if name in methods:
                return True
            case ast.Attribute(value=ast.Name(id="time"), attr=name) if name in functions:
                return True
            case ast.ImportFrom(module="time", names=names) if functions & {each.name for each in names}:
                return True
    return False


def with_clock_hint(parsed: ParsedProposal, problems: Sequence[ProposalProblem]) -> list[ProposalProblem]:
    """Return the problems, with a hint added to the last one if reading the clock may be their cause."""
    found = list(problems)
    at = max((number for number, each in enumerate(found) if each.part in _HINTED), default=None)
    hints = []
    if reads_clock(parsed.code) and not any(
        isinstance(node, ast.arg) and node.arg == "clock" for node in parsed.tests.nodes
    ):
        hints.append(HINT)
    if reads_clock(parsed.code, _ELAPSED, frozenset()):
        hints.append(_ELAPSED_HINT)
    if at is not None and hints:
        found[at] = replace(found[at], text=" ".join([found[at].text, *hints]))
    return found


def clock_calls(calls: Sequence[Data], most: int) -> list[dict[str, object]]:
    """Return at most `most` calls from the tests, moved to other times.

    The new times are those of other calls, and times at boundaries, such as the end of a month.
    """
    fixed = [call for call in calls if "clock" in call]
    times = list(dict.fromkeys(call["clock"] for call in fixed))
    rows = [
        [{**call, "clock": each} for each in dict.fromkeys((*_others(call["clock"]), *times)) if each != call["clock"]]
        for call in fixed
    ]
    return take_in_turn(rows, calls, most)


def _others(text: str) -> Iterator[str]:
    """Yield the bounds of the day, month and year of a time, and times near it; nothing if the text is not a time."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    last = dt.timedelta(microseconds=1)
    try:
        found = [day, day + dt.timedelta(hours=12), day + dt.timedelta(days=1) - last, day.replace(day=1)]
        found += [day.replace(month=1, day=1), day.replace(month=12, day=31), day.replace(year=2028, month=2, day=29)]
        found += [moment + shift for shift in _SHIFTS]
    except (ValueError, OverflowError):  # outside the range of datetime
        return
    yield from (each.isoformat() for each in found)

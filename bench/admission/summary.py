"""Totals and tables of the dialogues between authors and admission."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.admission.authors import AUTHORS
from bench.admission.dialogue import AdmissionDialogue
from bench.admission.problems import TESTS

SHOWN = 600  # characters of a refusal
_SHARES = ("correct_at_once", "correct_after", "broken_at_once", "broken_after", "broken_unequal_after")


@dataclass(frozen=True, slots=True)
class Measured:
    """One solution of a problem, proposed with one kind of tests by one author.

    Attributes:
        dialogue: None for a broken solution that fails these tests, which is not proposed.
        equal: As in `bench.admission.solutions.Solution`.
    """

    problem: str
    tests: str
    author: str
    broken: bool
    source: str
    dialogue: AdmissionDialogue | None
    equal: bool = False


def summarize(measured: Sequence[Measured], problems: int) -> dict[str, Any]:
    """Return the numbers for each kind of tests and author.

    Args:
        problems: The number of problems that were tried.
    """
    pairs = dict.fromkeys((each.tests, each.author) for each in measured)
    rows = []
    for tests, author in pairs:
        chosen = [each for each in measured if (each.tests, each.author) == (tests, author)]
        rows.append({"tests": tests, "author": author, **_numbers(chosen)})
    return {
        "problems": problems,
        "usable": len({each.problem for each in measured}),
        "rows": rows,
        "missed": _missed(measured),
    }


def _numbers(measured: Sequence[Measured]) -> dict[str, Any]:
    correct = [each.dialogue for each in measured if not each.broken and each.dialogue]
    broken = [each for each in measured if each.broken]
    passing = [each.dialogue for each in broken if each.dialogue]
    asked = sorted(each.questions for each in correct)
    rounds = [len(each.attempts) - 1 for each in correct]
    seconds = sorted(each.seconds for each in correct)
    return {
        "correct": len(correct),
        "correct_at_once": _share(sum(each.attempts[0].admitted for each in correct), len(correct)),
        "correct_after": _share(sum(each.admitted for each in correct), len(correct)),
        "broken": len(broken),
        "broken_passing": len(passing),
        "broken_at_once": _share(sum(each.attempts[0].admitted for each in passing), len(broken)),
        "broken_after": _share(sum(each.admitted for each in passing), len(broken)),
        "broken_unequal_after": _share(
            sum(each.dialogue is not None and each.dialogue.admitted and not each.equal for each in broken), len(broken)
        ),
        "passing_after": _share(sum(each.admitted for each in passing), len(passing)),
        "questions_median": _at(asked, 0.5),
        "questions_p95": _at(asked, 0.95),
        "rounds_mean": statistics.mean(rounds) if rounds else None,
        "seconds_median": _at(seconds, 0.5),
        "seconds_p95": _at(seconds, 0.95),
    }


def _missed(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """Return correct solutions that were refused, and broken ones that were admitted."""
    return [
        {
            "problem": each.problem,
            "tests": each.tests,
            "author": each.author,
            "broken": each.broken,
            "source": each.source,
            "why": each.dialogue.attempts[-1].why[:SHOWN],
            "questions": [len(attempt.asked) for attempt in each.dialogue.attempts],
        }
        for each in measured
        if each.dialogue and each.dialogue.admitted == each.broken
    ]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _at(ordered: Sequence[float], share: float) -> float | None:
    return ordered[round(share * (len(ordered) - 1))] if ordered else None


def show(numbers: dict[str, Any], console: Console) -> None:
    """Print one table for each kind of tests, and what the authors do."""
    for tests, meaning in TESTS.items():
        rows = [row for row in numbers["rows"] if row["tests"] == tests]
        if not rows:
            continue
        columns = [f"{kind}\n{when}" for kind in ("correct", "broken") for when in ("at once", "after")]
        columns = ["author", *columns, "unequal\nafter", "questions\n(p95)", "rounds", "seconds\n(p95)"]
        table = Table(*columns, title=f"{tests}: {meaning}", title_justify="left")
        for row in rows:
            table.add_row(
                row["author"],
                *(_percent(row[key]) for key in _SHARES),
                f"{_number(row['questions_median'])} ({_number(row['questions_p95'])})",
                _number(row["rounds_mean"]),
                f"{_number(row['seconds_median'])} ({_number(row['seconds_p95'])})",
            )
        console.print(table)
        first = rows[0]
        console.print(
            f"{first['correct']} correct and {first['broken']} broken solutions, of which {first['broken_passing']} "
            'pass these tests. "unequal" leaves out broken solutions whose results all equal the right ones, '
            "such as 325.0 and 325."
        )
    console.print(f"{numbers['usable']} of {numbers['problems']} problems are usable.")
    for name, meaning in AUTHORS.items():
        console.print(f"{name}: {meaning}.")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"

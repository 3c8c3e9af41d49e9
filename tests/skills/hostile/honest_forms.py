"""Honest skills in common forms of plain Python, which must be admitted."""

from tests.skills.hostile.attempt import Attempt

HONEST_FORMS = (
    Attempt(
        "public_helpers",
        "Has a helper function and a class without a leading underscore.",
        '''from dataclasses import dataclass


@dataclass
class Span:
    start: int
    end: int


def overlaps(one: Span, other: Span) -> bool:
    return one.start <= other.end and other.start <= one.end


def merge_spans(spans: list[list[int]]) -> list[list[int]]:
    """Merge spans of whole numbers that overlap or touch.

    Args:
        spans: The start and the end of each span.
    """
    merged: list[Span] = []
    for span in (Span(start, end) for start, end in sorted(spans)):
        if merged and overlaps(merged[-1], span):
            merged[-1].end = max(merged[-1].end, span.end)
        else:
            merged.append(span)
    return [[span.start, span.end] for span in merged]
''',
        """from merge_spans import merge_spans


def test_merges():
    assert merge_spans([[5, 6], [1, 3], [2, 4]]) == [[1, 4], [5, 6]]
    assert merge_spans([[1, 9], [2, 3]]) == [[1, 9]]


def test_touching():
    assert merge_spans([[1, 2], [2, 3]]) == [[1, 3]]
    assert merge_spans([]) == []
""",
        "merge_spans",
    ),
    Attempt(
        "no_type_hints",
        "Has no type hints, and tests that give it a set and dates.",
        '''def next_workday(day, holidays=frozenset(), step=1):
    """Return the next day that is no weekend and no holiday.

    Args:
        day: Where to start.
        holidays: Days off.
        step: Days to move at a time, 1 or -1.
    """
    found = day.fromordinal(day.toordinal() + step)
    while found.weekday() >= 5 or found in holidays:
        found = found.fromordinal(found.toordinal() + step)
    return found
''',
        """from datetime import date

from next_workday import next_workday


def test_weekend():
    assert next_workday(date(2024, 5, 3)) == date(2024, 5, 6)
    assert next_workday(date(2024, 5, 6)) == date(2024, 5, 7)
    assert next_workday(date(2024, 5, 9)) == date(2024, 5, 10)
    assert next_workday(date(2024, 5, 4), frozenset(), 2) == date(2024, 5, 6)


def test_holidays():
    assert next_workday(date(2024, 5, 3), frozenset({date(2024, 5, 6)})) == date(2024, 5, 7)


def test_back():
    assert next_workday(date(2024, 5, 6), step=-1) == date(2024, 5, 3)
""",
        "next_workday",
    ),
    Attempt(
        "camel_case",
        "Has a function in camel case that calls itself, and tests that import it by that name.",
        '''def flattenList(items: list) -> list:
    """Flatten nested lists.

    Args:
        items: The list, whose items may be lists.
    """
    flat = []
    for item in items:
        flat.extend(flattenList(item) if isinstance(item, list) else [item])
    return flat
''',
        """import flattenList as module
from flattenList import (
    flattenList,  # the function
)


def test_nested():
    assert flattenList([1, [2, [3]], []]) == [1, 2, 3]


def test_flat():
    assert module.flattenList(["a", None]) == ["a", None]
    assert module.flattenList([]) == []
""",
        "flattenList",
    ),
    Attempt(
        "generator_function",
        "Yields its result, and its tests take single items.",
        '''from collections.abc import Iterator


def windows(items: list[int], size: int) -> Iterator[list[int]]:
    """Yield every run of items next to each other.

    Args:
        items: The items.
        size: How many items a run has, 1 or more.
    """
    if size < 1:
        raise ValueError("size must be 1 or more")
    for start in range(len(items) - size + 1):
        yield items[start : start + size]
''',
        """import pytest
from windows import windows


def test_runs():
    assert list(windows([1, 2, 3], 2)) == [[1, 2], [2, 3]]
    assert next(windows([4, 5], 1)) == [4]


def test_none():
    assert [*windows([1], 2)] == []
    assert [*windows([1, 2], 2)] == [[1, 2]]


def test_size():
    runs = windows([1], 0)
    with pytest.raises(ValueError, match="1 or more"):
        next(runs)
    assert list(windows([1], 1)) == [[1]]
""",
        "windows",
    ),
    Attempt(
        "coroutine_function",
        "Is a coroutine function, and its tests await it or call asyncio.run.",
        '''import asyncio


async def longest_of(texts: list[str]) -> str:
    """Return the longest text, the first of equally long ones.

    Args:
        texts: The texts.
    """
    async def size(text):
        await asyncio.sleep(0)
        return len(text)

    sizes = await asyncio.gather(*(size(text) for text in texts))
    return texts[sizes.index(max(sizes))] if texts else ""
''',
        """import asyncio

import pytest
from longest_of import longest_of


@pytest.mark.asyncio
async def test_longest():
    assert await longest_of(["a", "bcd", "ef", "ghi"]) == "bcd"
    assert await asyncio.gather(longest_of(["x"]), longest_of(["", "y"])) == ["x", "y"]


def test_nothing():
    assert asyncio.run(longest_of([])) == ""
""",
        "longest_of",
    ),
)

"""Honest skills that look suspicious and must be admitted."""

from tests.skills.hostile.attempt import Attempt

HONEST = (
    Attempt(
        "uses_sys",
        "Looks at the interpreter: byte order, and the largest index.",
        '''import sys


def fits_an_index(number: int) -> bool:
    """Tell whether a number could be the index of an element in a list of this Python.

    Args:
        number: The number.
    """
    return 0 <= number < sys.maxsize
''',
        """import sys

from fits_an_index import fits_an_index


def test_inside():
    assert fits_an_index(0) is True
    assert fits_an_index(sys.maxsize - 1) is True


def test_outside():
    assert fits_an_index(-1) is False
    assert fits_an_index(sys.maxsize) is False
""",
        "fits_an_index",
    ),
    Attempt(
        "uses_time",
        "Reads the clock and sleeps a little.",
        '''import time


def timed_sum(values: list[int]) -> dict[str, float]:
    """Add numbers and say how long it took.

    Args:
        values: The numbers.
    """
    start = time.perf_counter()
    total = sum(values)
    time.sleep(0.001)
    return {"total": total, "seconds": time.perf_counter() - start}
''',
        """from timed_sum import timed_sum


def test_total():
    assert timed_sum([1, 2, 4])["total"] == 7
    assert timed_sum([])["total"] == 0


def test_time():
    assert 0.001 <= timed_sum([1])["seconds"] < 5
""",
        "timed_sum",
    ),
    Attempt(
        "patches_its_own_constant",
        "A test changes a constant of the skill's own module.",
        '''LIMIT = 10


def shortened(text: str) -> str:
    """Cut a text that is too long and say so with three dots.

    Args:
        text: The text.
    """
    return text if len(text) <= LIMIT else text[: LIMIT - 3] + "..."
''',
        """import shortened as module
from shortened import shortened


def test_long():
    assert shortened("abcdefghijk") == "abcdefg..."


def test_just_fits():
    assert shortened("abcdefghij") == "abcdefghij"


def test_another_limit(monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 5)
    assert shortened("abcdef") == "ab..."
""",
        "shortened",
    ),
    Attempt(
        "reads_a_file",
        "Reads a file that its tests write into the working folder.",
        '''from pathlib import Path


def count_lines(path: str) -> int:
    """Count the lines of a text file that are not empty.

    Args:
        path: The file, relative to the working folder.
    """
    return sum(bool(line.strip()) for line in Path(path).read_text(encoding="utf-8").splitlines())
''',
        """import pytest
from count_lines import count_lines


def test_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.txt").write_text("one\\n\\ntwo\\n   \\n")
    assert count_lines("some.txt") == 2


def test_missing():
    with pytest.raises(FileNotFoundError):
        count_lines("nowhere.txt")
""",
        "count_lines",
    ),
    Attempt(
        "keeps_a_cache",
        "Remembers earlier answers, so that its state changes between calls and its answers do not.",
        '''import functools


@functools.lru_cache(maxsize=100)
def _steps(number: int) -> int:
    if number == 1:
        return 0
    return 1 + _steps(number // 2 if number % 2 == 0 else 3 * number + 1)


def collatz_steps(number: int) -> int:
    """Count the steps of the Collatz rule down to 1.

    Args:
        number: Where to start, 1 or more.
    """
    return _steps(number)
''',
        """from collatz_steps import collatz_steps


def test_start():
    assert collatz_steps(1) == 0


def test_longer():
    assert collatz_steps(6) == 8
    assert collatz_steps(6) == 8
    assert collatz_steps(7) == 16
""",
        "collatz_steps",
    ),
    Attempt(
        "takes_a_dataclass",
        "Takes and gives dataclasses with an equality of their own.",
        '''from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """A point on a grid."""

    x: int
    y: int


def mirrored(point: Point) -> Point:
    """Mirror a point at the diagonal.

    Args:
        point: The point.
    """
    return Point(point.y, point.x)
''',
        """from mirrored import Point, mirrored


def test_mirrored():
    assert mirrored(Point(1, 2)) == Point(2, 1)


def test_on_the_diagonal():
    assert mirrored(Point(3, 3)) == Point(3, 3)
    assert mirrored(Point(-1, 0)) == Point(0, -1)
""",
        "mirrored",
    ),
    Attempt(
        "raises_on_purpose",
        "Raises, and its tests expect just that message.",
        '''def percentage(text: str) -> float:
    """Read a percentage such as 12.5%.

    Args:
        text: The text.
    """
    if not text.endswith("%"):
        raise ValueError(f"{text!r} has no percent sign")
    value = float(text[:-1])
    if not 0 <= value <= 100:
        raise ValueError(f"{text!r} is not between 0% and 100%")
    return value / 100
''',
        """import pytest
from percentage import percentage


def test_value():
    assert percentage("12.5%") == 0.125
    assert percentage("0%") == 0
    assert percentage("100%") == 1


@pytest.mark.parametrize("text", ["101%", "-1%"])
def test_range(text):
    with pytest.raises(ValueError, match="not between"):
        percentage(text)


def test_sign():
    with pytest.raises(ValueError, match="no percent sign"):
        percentage("12")
""",
        "percentage",
    ),
    Attempt(
        "random_with_a_seed",
        "Draws at random, from a seed that it is given.",
        '''import random


def lottery(seed: int, count: int = 6) -> list[int]:
    """Draw different numbers from 1 to 49, in order.

    Args:
        seed: Decides the numbers.
        count: How many.
    """
    return sorted(random.Random(seed).sample(range(1, 50), count))
''',
        """import random

from lottery import lottery


def test_as_the_seed_says():
    assert lottery(7) == sorted(random.Random(7).sample(range(1, 50), 6))
    assert lottery(7) != lottery(8)


def test_numbers():
    drawn = lottery(1, 49)
    assert drawn == list(range(1, 50))
    assert len(lottery(3)) == 6
""",
        "lottery",
    ),
    Attempt(
        "works_in_threads",
        "Starts threads and waits for them.",
        '''from concurrent.futures import ThreadPoolExecutor


def longest_words(texts: list[str]) -> list[str]:
    """Give the longest word of each text, the first of equally long ones.

    Args:
        texts: The texts.
    """
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda text: max(text.split(), key=len, default=""), texts))
''',
        """from longest_words import longest_words


def test_longest():
    assert longest_words(["a bee sees", "one two"]) == ["sees", "one"]


def test_nothing():
    assert longest_words([""]) == [""]
    assert longest_words([]) == []
""",
        "longest_words",
    ),
    Attempt(
        "speaks_of_tests",
        "Reads reports of pytest: its text is full of failed, passed and os._exit.",
        '''import re


def count_failures(report: str) -> int:
    """Count the failures in the last line of what pytest printed; -1 when it was left by os._exit or the like.

    Args:
        report: What pytest printed.
    """
    found = re.search(r"(\\\\d+) failed", report)
    if found:
        return int(found[1])
    return 0 if " passed" in report else -1
'''.replace("\\\\d", "\\d"),
        """from count_failures import count_failures


def test_counts():
    assert count_failures("== 3 failed, 2 passed in 0.1s ==") == 3
    assert count_failures("12 failed") == 12


def test_none():
    assert count_failures("== 2 passed in 0.1s ==") == 0


def test_left_early():
    assert count_failures("collected 2 items") == -1
""",
        "count_failures",
    ),
    Attempt(
        "tested_by_unittest",
        "Has its tests in a class of unittest, with a set-up.",
        '''import os


def file_kind(path: str) -> str:
    """Give the kind of a file by its name, without a dot and in small letters.

    Args:
        path: The path.
    """
    return os.path.splitext(path)[1].lstrip(".").lower()
''',
        """import unittest

from file_kind import file_kind


class Kinds(unittest.TestCase):
    def setUp(self):
        self.known = {"a/b.TXT": "txt", "c.tar.gz": "gz", "README": ""}

    def test_known(self):
        for path, kind in self.known.items():
            with self.subTest(path):
                self.assertEqual(file_kind(path), kind)

    def test_hidden(self):
        self.assertEqual(file_kind(".profile"), "")
""",
        "file_kind",
    ),
    Attempt(
        "mutates_what_it_is_given",
        "Keeps a fixture between tests and sorts the list it is given in place, as its description says.",
        '''def sort_by_length(words: list[str]) -> list[str]:
    """Sort words by length, shortest first, and words of one length by letters; the given list itself is sorted.

    Args:
        words: The words.
    """
    words.sort(key=lambda word: (len(word), word))
    return words
''',
        """import pytest
from sort_by_length import sort_by_length


@pytest.fixture
def words():
    return ["pear", "fig", "apple", "kiwi"]


def test_sorted(words):
    assert sort_by_length(words) == ["fig", "kiwi", "pear", "apple"]


def test_in_place(words):
    assert sort_by_length(words) is words
    assert words[0] == "fig"
""",
        "sort_by_length",
    ),
)

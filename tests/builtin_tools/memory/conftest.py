"""Fixtures for the memory: a store in a real file, with a clock that the test sets."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builtin_tools.memory.store import MemoryStore

START = datetime(2026, 3, 11, 15, 30, tzinfo=UTC)  # a Wednesday


class SetClock:
    """A clock that moves only when the test moves it."""

    def __init__(self, now: datetime = START) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def set(self, time: datetime) -> float:
        self.time = time
        return time.timestamp()

    def later(self, **amount: float) -> float:
        return self.set(self.time + timedelta(**amount))


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def store(tmp_path: Path, clock: SetClock) -> Iterator[MemoryStore]:
    opened = MemoryStore.open(tmp_path / "memory.db", clock)
    yield opened
    opened.close()

"""Fixtures for the memory: a service on real files, with a clock that the test sets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from acquired_skills.store.past_requests import PastRequests
from builtin_tools.memory.dream.plans import DreamPlans
from builtin_tools.memory.encoder import EncoderLoader
from builtin_tools.memory.erasure import Erasure, Places
from builtin_tools.memory.indexing import MemoryIndexes
from builtin_tools.memory.service import MemoryService
from builtin_tools.memory.store import MemoryStore
from engine.stores.embedder import WordLlamaEmbedder
from engine.stores.records import Records

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


@dataclass(frozen=True)
class MemoryHome:
    """An open memory in a home of its own."""

    root: Path
    store: MemoryStore
    indexes: MemoryIndexes
    erasure: Erasure
    service: MemoryService
    requests: PastRequests
    records: Records
    clock: SetClock

    def close(self) -> None:
        self.service.reindexing.close()
        self.indexes.close()
        self.store.close()
        self.records.close()


def open_memory(
    root: Path,
    clock: SetClock,
    embedder: WordLlamaEmbedder,
    new_id: Callable[[], str] | None = None,
    encoder: EncoderLoader | None = None,
) -> MemoryHome:
    """Open the memory of a home without an engine."""
    root.mkdir(exist_ok=True)
    store = MemoryStore.open(root / "memory.db", clock, new_id)
    indexes = MemoryIndexes(root / "memory_index", store, lambda: embedder, encoder)
    records = Records.open(f"sqlite:///{root / 'records.db'}")
    requests = PastRequests(records)
    places = Places(root, root / "backups", (root / "records.db", root / "memory.db"))
    plans = DreamPlans(store, lambda owner, agent, keys, hidden: 0)
    erasure = Erasure(store, indexes, places, requests.forget_texts, forget_plans=plans.forget)
    service = MemoryService(store, indexes, erasure, clock, lambda user: ZoneInfo("Europe/Berlin"))
    return MemoryHome(root, store, indexes, erasure, service, requests, records, clock)


@pytest.fixture(scope="session")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def store(tmp_path: Path, clock: SetClock) -> Iterator[MemoryStore]:
    opened = MemoryStore.open(tmp_path / "memory.db", clock)
    yield opened
    opened.close()


@pytest.fixture
def home(tmp_path: Path, clock: SetClock, embedder: WordLlamaEmbedder) -> Iterator[MemoryHome]:
    opened = open_memory(tmp_path / "home", clock, embedder)
    yield opened
    opened.close()

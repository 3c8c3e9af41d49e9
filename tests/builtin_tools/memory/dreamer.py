"""`Dreamer`: the parts of consolidation in one home, for tests."""

from typing import Any

from builtin_tools.memory.contradictions import REPEATS
from builtin_tools.memory.dream.dreaming import Dreaming
from builtin_tools.memory.dream.near_duplicates import NearDuplicates
from builtin_tools.memory.dream.planner import DreamPlanner
from builtin_tools.memory.dream.plans import DreamPlans
from builtin_tools.memory.entries import EntryKind
from builtin_tools.memory.lessons.lesson_book import LessonBook
from builtin_tools.memory.profile import Profile
from builtin_tools.scratchpad import Scratchpad
from engine.retrieval.passage import PassageFilter
from engine.stores.call_journal import CallJournal
from engine.stores.embedder import WordLlamaEmbedder
from tests.builtin_tools.memory.conftest import MemoryHome

ADA = "user:ada"


class Dreamer:
    """The parts of consolidation in one home."""

    def __init__(self, home: MemoryHome, embedder: WordLlamaEmbedder) -> None:
        self.home = home
        self.book, self.profile = LessonBook(home.store), Profile(home.store)
        self.notes = Scratchpad.open(home.records, home.clock)
        self.plans = DreamPlans(home.store, lambda owner, agent, keys, hide: self.notes.hide("ada", agent, keys, hide))
        self.journal = CallJournal(home.records)
        planner = DreamPlanner(home.store, self.book, lambda: NearDuplicates(embedder), self.similar)
        self.dreaming = Dreaming(
            home.store,
            planner,
            self.plans,
            self.profile,
            notes=self.notes,
            failures=self.journal.failures,
            clock=home.clock,
        )

    def similar(self, owner: str, space: str, text: str, limit: int) -> list[tuple[str, float]]:
        return self.home.indexes.similar(owner, text, limit, PassageFilter(kinds={"fact"}, spaces={space}))

    def current(self, kind: EntryKind = EntryKind.FACT) -> set[str]:
        with self.home.store.reading() as memory:
            every = memory.entries([ADA])
        return {entry.text for entry in every if entry.kind is kind and entry.holds_to is None}

    def everything(self) -> list[Any]:
        """All that undoing must restore."""
        with self.home.store.reading() as memory:
            rows = memory.entries([ADA])
        return sorted(
            (e.id, e.text, e.holds_to, e.successor, {**e.data, REPEATS: e.data.get(REPEATS, 0)}) for e in rows
        )

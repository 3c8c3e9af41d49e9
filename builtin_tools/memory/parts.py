"""`MemoryParts`: opens the documents, lessons, profile and consolidation of a home's memory."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builtin_tools.memory.documents.workspace_intake import WorkspaceIntake
from builtin_tools.memory.dream.dreaming import Dreaming
from builtin_tools.memory.dream.planner import DreamPlanner
from builtin_tools.memory.dream.plans import DreamPlans
from builtin_tools.memory.entries import EntryKind
from builtin_tools.memory.indexing import MemoryIndexes
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.lessons.lessons_block import LessonsBlock
from builtin_tools.memory.profile import Profile
from builtin_tools.memory.profile_block import ProfileBlock
from builtin_tools.memory.scope import user_of
from builtin_tools.memory.store import MemoryStore
from builtin_tools.scratchpad import Scratchpad
from engine.app.services import Services
from engine.retrieval.passage import PassageFilter
from engine.stores.call_views import FailuresView

if TYPE_CHECKING:
    from builtin_tools.memory.dream.near_duplicates import NearDuplicates

_SIMILAR_LESSONS = 5


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """The parts of the memory besides facts: documents, lessons, profile and consolidation."""

    documents: WorkspaceIntake
    book: LessonBook
    lessons: LessonsBlock
    profile: Profile
    profile_block: ProfileBlock
    plans: DreamPlans
    dreaming: Dreaming

    @classmethod
    def open(cls, services: Services, store: MemoryStore, indexes: MemoryIndexes, ocr: str) -> "MemoryParts":
        """Open the parts. Blocks. `ocr` is that of `DocumentIngestion`."""
        notes = Scratchpad.open(services.records, services.clock)

        def similar_lessons(owner: str, text: str) -> Sequence[tuple[str, float]]:
            where = PassageFilter(kinds={EntryKind.LESSON.value}, spaces={LESSONS})
            return indexes.similar(owner, text, _SIMILAR_LESSONS, where)

        def similar_facts(owner: str, space: str, text: str, limit: int) -> Sequence[tuple[str, float]]:
            return indexes.similar(owner, text, limit, PassageFilter(kinds={EntryKind.FACT.value}, spaces={space}))

        def hide_notes(owner: str, agent: str, keys: Collection[str], hidden: bool) -> int:
            return notes.hide(user_of(owner), agent, keys, hidden)

        def compare() -> "NearDuplicates":
            from builtin_tools.memory.dream.near_duplicates import NearDuplicates  # noqa: PLC0415 -- numpy

            return NearDuplicates(services.embedder())

        book, profile = LessonBook(store, similar_lessons), Profile(store)
        plans = DreamPlans(store, hide_notes)
        dreaming = Dreaming(
            store,
            DreamPlanner(store, book, compare, similar_facts),
            plans,
            profile,
            notes=notes,
            failures=FailuresView(services.records),
            clock=services.clock,
        )
        return cls(
            WorkspaceIntake(store, ocr),
            book,
            LessonsBlock(book, store, indexes),
            profile,
            ProfileBlock(profile),
            plans,
            dreaming,
        )

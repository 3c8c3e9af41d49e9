"""Lessons are merged, shown where they fit, counted, and fade when they do not help."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.indexing import MemoryIndexes
from builtin_tools.memory.lessons.lesson import Lesson, LessonOrigin, NewLesson
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.lessons.lessons_block import LessonsBlock, chosen_of, drafts_of, was_followed
from builtin_tools.memory.store import MemoryStore
from engine.contract.failure import FailureClass
from engine.contract.run_summary import RunCall, RunSummary
from engine.contract.turn import Turn
from engine.retrieval.passage import FoundPassage, PassageFilter
from engine.stores.embedder import WordLlamaEmbedder
from tests.builtin_tools.memory.conftest import SetClock

ADA = "user:ada"
BY_ADA = EntrySource(SourceKind.TOOL, user="ada", agent="main", call_id="c1")
CSV = NewLesson("Read a CSV file of a bank as UTF-8.", "Read it as cp1252.", "execute", "execute", evidence=("c1",))
TURN = Turn(user="ada")


@pytest.fixture
def indexes(tmp_path: Path, store: MemoryStore) -> Iterator[MemoryIndexes]:
    opened = MemoryIndexes(tmp_path / "indexes", store, WordLlamaEmbedder)
    yield opened
    opened.close()


def learn(book: LessonBook, mistake: str, fix: str, tool: str = "", **more: str) -> tuple[Lesson, bool]:
    return book.learn(ADA, LESSONS, NewLesson(mistake, fix, tool, tool), BY_ADA, **more)


@pytest.mark.spec("MEM-7")
def test_a_similar_lesson_is_counted_and_its_evidence_collected(store: MemoryStore, clock: SetClock) -> None:
    book = LessonBook(store)
    first, _ = book.learn(ADA, LESSONS, CSV, BY_ADA)
    clock.later(days=1)
    again = NewLesson("Read the bank's CSV file as UTF-8", "Read it as cp1252!", "execute", "execute", evidence=("c2",))
    second, merged = book.learn(ADA, LESSONS, again, BY_ADA)
    assert merged
    assert (second.id, second.count, second.what.evidence) == (first.id, 2, ("c2", "c1"))
    _, other = learn(book, "Deleted a folder without asking.", "Ask before deleting.")
    assert not other
    assert sorted(each.count for each in book.all({ADA: [LESSONS]})) == [1, 2]


@pytest.mark.spec("MEM-7")
def test_a_better_fix_replaces_the_known_one_and_keeps_it_in_the_history(store: MemoryStore) -> None:
    book = LessonBook(store)
    old, _ = book.learn(ADA, LESSONS, CSV, BY_ADA)
    new, merged = learn(book, CSV.mistake, "Detect the encoding with charset-normalizer first.", "execute")
    assert merged
    assert (new.count, new.id != old.id) == (2, True)
    assert [each.what.fix for each in book.all({ADA: [LESSONS]})] == [new.what.fix]
    with store.reading() as memory:
        kept = memory.one([ADA], old.id)
    assert kept is not None
    assert kept.successor == new.id


@pytest.mark.spec("MEM-7")
def test_lessons_about_different_tools_stay_apart(store: MemoryStore) -> None:
    book = LessonBook(store)
    learn(book, "Passed a path outside of the workspace.", "Use a relative path.", "file_system")
    _, merged = learn(book, "Passed a path outside of the workspace.", "Use a relative path.", "execute")
    assert not merged


@pytest.mark.slow
@pytest.mark.spec("MEM-7")
async def test_fitting_lessons_are_shown_and_what_becomes_of_them_is_counted(
    store: MemoryStore, indexes: MemoryIndexes
) -> None:
    book = LessonBook(store, lambda owner, text: indexes.similar(owner, text, 5, PassageFilter(kinds={"lesson"})))
    block = LessonsBlock(book, store, indexes)
    message = "Read the CSV file that my bank sent me"
    assert await block.text(TURN, message) == ""
    lesson, _ = book.learn(ADA, LESSONS, CSV, BY_ADA)
    learn(book, "Deleted a folder without asking.", "Ask before deleting.")
    text = await block.text(TURN, message)
    assert "cp1252" in text
    assert "Deleted" not in text
    assert await block.text(Turn(user="bob"), message) == ""
    assert await block.text(Turn(user="ada", memory_spaces=("shared:*",)), message) == ""
    calls = (RunCall("c9", "execute", success=True),)
    await block.run_ended(TURN, RunSummary(message, answered=True, calls=calls))
    await block.run_ended(TURN, RunSummary(message, answered=True, calls=calls))  # this run was shown nothing
    counted = book.get(ADA, [lesson.id])[lesson.id]
    assert (counted.shown, counted.followed, counted.helped) == (1, 1, 1)


@pytest.mark.spec("MEM-7")
async def test_failures_of_a_run_become_a_draft_that_a_lesson_completes(
    store: MemoryStore, indexes: MemoryIndexes
) -> None:
    book = LessonBook(store)
    block = LessonsBlock(book, store, indexes)
    failed = [RunCall(f"c{n}", "execute", False, "error", FailureClass.DIAGNOSTIC) for n in range(2)]
    await block.run_ended(TURN, RunSummary("m", answered=True, calls=(failed[0],)))
    assert book.all({ADA: [LESSONS]}) == []  # a single correctable failure teaches nothing
    for _ in range(2):
        await block.run_ended(TURN, RunSummary("m", answered=False, calls=tuple(failed)))
    (draft,) = book.all({ADA: [LESSONS]})
    assert (draft.draft, draft.count, draft.what.tool, draft.what.evidence) == (True, 2, "execute", ("c0", "c1"))
    lesson, _ = learn(book, "Used a file that is not there.", "List the folder first.", "execute", draft=draft.id)
    assert lesson.what.evidence == ("c0", "c1")
    await block.run_ended(TURN, RunSummary("m", answered=False, calls=tuple(failed)))
    assert [each.draft for each in book.all({ADA: [LESSONS]})] == [False]


@pytest.mark.spec("MEM-7")
def test_a_denial_becomes_a_draft_at_once_and_faults_of_the_loop_never_do() -> None:
    denied = RunCall("c1", "file_system", False, "denied", FailureClass.FATAL)
    budget = RunCall("c2", "execute", False, "budget", FailureClass.FATAL)
    assert [each.tool for each in drafts_of([denied, budget])] == ["file_system"]


@pytest.mark.spec("MEM-7")
@given(some.lists(some.tuples(some.floats(0, 1), some.integers(0, 30), some.integers(0, 30)), max_size=12))
def test_at_most_three_lessons_are_shown_within_the_limit_and_none_that_faded(
    figures: list[tuple[float, int, int]],
) -> None:
    lessons = [
        Lesson(str(at), NewLesson("m" * 300, "f" * 300), shown=max(shown, helped), helped=helped)
        for at, (_, shown, helped) in enumerate(figures)
    ]
    found = [FoundPassage(str(at), 0.0, fit) for at, (fit, _, _) in enumerate(figures)]
    chosen = chosen_of(found, lessons)
    assert len(chosen) <= 3
    assert sum(len(each.what.text) + 3 for each in chosen) <= 1_500
    assert not any(each.faded for each in chosen)


@pytest.mark.spec("MEM-7")
def test_a_lesson_fades_after_nine_runs_in_which_it_did_not_help_and_comes_back_when_it_does() -> None:
    shown = [Lesson("a", CSV, shown=count).faded for count in range(12)]
    assert shown.index(True) == 9
    assert not Lesson("a", CSV, shown=9, helped=1).faded


@pytest.mark.spec("MEM-7")
def test_a_lesson_about_a_tool_was_followed_if_the_mistake_did_not_recur() -> None:
    lesson = Lesson("a", NewLesson("m", "f", "execute", "execute", "error"))
    good, bad = RunCall("1", "execute", success=True), RunCall("2", "execute", False, "error", FailureClass.DIAGNOSTIC)
    assert was_followed(lesson, [good])
    assert not was_followed(lesson, [good, bad])
    assert not was_followed(lesson, [])
    assert LessonOrigin("run") is LessonOrigin.RUN

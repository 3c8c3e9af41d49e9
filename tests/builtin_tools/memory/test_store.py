"""The store keeps every entry with its source and times, changes atomically, and tells indexes what changed."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin_tools.memory.entries import EntryKind, EntrySource, KnownDocument, NewEntry, SourceKind, Statement
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import START, EntrySelection
from tests.builtin_tools.memory.conftest import SetClock

ADA = "user:ada"
SAID = EntrySource(SourceKind.USER, "ada", "main", "call-1")


def fact(text: str, owner: str = ADA, space: str = "personal:general", **more) -> NewEntry:
    return NewEntry(owner, space, EntryKind.FACT, text, SAID, **more)


def passage(text: str, position: int) -> NewEntry:
    source = EntrySource(SourceKind.DOCUMENT, "ada", page=1, start=position * 10, end=position * 10 + 9)
    return NewEntry(ADA, "personal:general", EntryKind.PASSAGE, text, source, "Manual", position=position)


def manual(document_id: str, text: str = "one two") -> KnownDocument:
    return KnownDocument(
        document_id, ADA, "personal:general", "manual.md", "Manual", "0" * 64, "text/markdown", text, 1.0, {"pages": 2}
    )


@pytest.mark.spec("MEM-1")
def test_an_entry_comes_back_with_its_source_its_statement_and_its_times(store: MemoryStore, clock: SetClock) -> None:
    said = Statement("ada", "home", "Paris")
    new = fact("Ada lives in Paris.", statement=said, holds_from=5.0, holds_to=9.0, skeleton="s", data={"n": [1]})
    with store.changing() as memory:
        entry = memory.insert(new)
    with store.reading() as memory:
        assert memory.one([ADA], entry.id) == entry
    assert (entry.source, entry.statement, entry.data, entry.learned) == (
        SAID,
        said,
        {"n": [1]},
        clock.now().timestamp(),
    )
    assert [entry.holds_at(time) for time in (4.9, 5.0, 8.9, 9.0)] == [False, True, True, False]


@pytest.mark.spec("MEM-1")
def test_an_entry_is_found_only_for_its_owner(store: MemoryStore) -> None:
    with store.changing() as memory:
        entry = memory.insert(fact("Ada lives in Paris."))
    with store.reading() as memory:
        assert memory.get(["user:bob", "shared:household"], [entry.id]) == {}
        assert memory.entries(["user:bob"]) == []


@pytest.mark.spec("MEM-1")
def test_a_replaced_entry_stays_in_the_history_of_its_successor(store: MemoryStore, clock: SetClock) -> None:
    with store.changing() as memory:
        one = memory.insert(fact("Ada lives in Paris."))
    later = clock.later(days=1)
    with store.changing() as memory:
        two = memory.insert(fact("Ada lives in Rome.", holds_from=later))
        memory.close(one, later, two.id)
    with store.reading() as memory:
        assert [each.text for each in memory.history(two)] == ["Ada lives in Paris.", "Ada lives in Rome."]
        assert [each.id for each in memory.entries([ADA], EntrySelection(holds_at=later))] == [two.id]
        assert [each.id for each in memory.entries([ADA], EntrySelection(holds_at=later - 1))] == [one.id]


@pytest.mark.spec("MEM-1")
def test_nothing_of_a_transaction_that_fails_is_stored(store: MemoryStore) -> None:
    def fail() -> None:
        with store.changing() as memory:
            memory.insert(fact("Ada lives in Paris."))
            raise RuntimeError("stop")

    before = store.generation()
    with pytest.raises(RuntimeError, match="stop"):
        fail()
    with store.reading() as memory:
        assert memory.entries([ADA]) == []
    assert store.generation() == before


def test_pages_contain_every_entry_once_newest_first(store: MemoryStore, clock: SetClock) -> None:
    with store.changing() as memory:
        for at in range(25):
            memory.insert(fact(f"fact {at}", learned=float(at // 3)))
    seen, after = [], None
    with store.reading() as memory:
        while page := memory.entries([ADA], after=after, limit=4):
            seen += page
            after = page[-1].learned, page[-1].id
    assert sorted(each.text for each in seen) == sorted(f"fact {at}" for at in range(25))
    assert [each.learned for each in seen] == sorted((each.learned for each in seen), reverse=True)


@settings(max_examples=10)
@given(st.lists(st.sampled_from(["insert", "close", "remove", "put"]), max_size=12), st.integers(1, 4))
def test_a_reader_of_changes_ends_with_exactly_the_entries_that_there_are(steps: list[str], limit: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        store = MemoryStore.open(Path(folder) / "memory.db", SetClock())
        copy, place, gone = {}, START, None
        for number, step in enumerate(steps):
            with store.changing() as memory:
                there = memory.entries([ADA])
                if step == "insert" or not there:
                    memory.insert_all([fact(f"{number} a"), fact(f"{number} b"), fact("other", "user:bob")])
                elif step == "close":
                    memory.close(there[0], 1.0)
                elif step == "remove":
                    gone = there[-1]
                    memory.remove([gone])
                elif gone is not None:
                    memory.put(gone)
            if number % 3 == 0:
                copy, place = follow(store, copy, place, limit)
        copy, place = follow(store, copy, place, limit)
        with store.reading() as memory:
            assert copy == {each.id: each for each in memory.entries([ADA])}
            assert memory.count_changed(ADA, place) == 0
        store.close()


def follow(store, copy, place, limit):
    copy = dict(copy)
    while True:
        with store.reading() as memory:
            changes = memory.changed_since(ADA, place, limit)
        if not changes:
            return copy, place
        for change in changes:
            place = change.place
            if change.entry is None:
                copy.pop(change.place[1], None)
            else:
                copy[change.entry.id] = change.entry


@pytest.mark.spec("MEM-1")
def test_a_removal_is_told_without_the_text(store: MemoryStore, tmp_path: Path) -> None:
    with store.changing() as memory:
        entry = memory.insert(fact("The password is heliotrope."))
    with store.changing() as memory:
        memory.remove([entry])
    with store.reading() as memory:
        (change,) = memory.changed_since(ADA, START, 10)
        assert (change.place[1], change.entry) == (entry.id, None)
        assert memory.pending_removals() == [entry.id]


def test_a_document_replaces_its_passages_and_is_removed_with_them(store: MemoryStore) -> None:
    with store.changing() as memory:
        memory.add_document(manual("d1"), [passage("one", 0), passage("two", 1)])
    with store.changing() as memory:
        memory.add_document(manual("d1", "one three"), [passage("one", 0), passage("three", 1), passage("four", 2)])
    with store.reading() as memory:
        assert [each.text for each in memory.passages("d1")] == ["one", "three", "four"]
        assert [each.text for each in memory.passages("d1", 1, 1)] == ["three"]
        assert memory.document([ADA], "d1") == manual("d1", "one three")
        assert memory.document(["user:bob"], "d1") is None
        assert memory.document_at(ADA, "personal:general", "manual.md") == manual("d1", "one three")
        assert memory.document_with(ADA, "personal:general", "0" * 64) == manual("d1", "one three")
        assert memory.documents([ADA]) == [manual("d1", "one three")]
    with store.changing() as memory:
        assert [each.text for each in memory.remove_document("d1")] == ["one", "three", "four"]
    with store.reading() as memory:
        assert (memory.documents([ADA]), memory.entries([ADA])) == ([], [])


def test_spaces_and_owners_are_listed(store: MemoryStore) -> None:
    with store.changing() as memory:
        for owner, space in ((ADA, "personal:b"), (ADA, "personal:a"), ("shared:home", "shared:home")):
            memory.insert_all([fact("x", owner, space), fact("y", owner, space)])
    with store.reading() as memory:
        assert memory.spaces(ADA) == ["personal:a", "personal:b"]
        assert memory.shared() == ["shared:home"]
        assert memory.owners() == ["shared:home", ADA]


def test_an_open_pair_is_found_from_both_sides_until_it_is_settled(store: MemoryStore) -> None:
    with store.changing() as memory:
        one, two, three = memory.insert_all([fact("a"), fact("b"), fact("c")])
        memory.open_pair(one, two, "the numbers differ")
        memory.open_pair(one, two, "the numbers differ")
    with store.reading() as memory:
        assert memory.open_pairs([ADA], [one.id]) == memory.open_pairs([ADA], [two.id]) == memory.open_pairs([ADA])
        assert len(memory.open_pairs([ADA])) == 1
        assert memory.open_pairs([ADA], [three.id]) == memory.open_pairs(["user:bob"]) == []
    with store.changing() as memory:
        memory.settle_pair(one.id, two.id)
        assert memory.open_pairs([ADA]) == []


def test_two_stores_on_one_file_see_each_others_changes(store: MemoryStore, tmp_path: Path, clock: SetClock) -> None:
    other = MemoryStore.open(tmp_path / "memory.db", clock)
    try:
        with other.changing() as memory:
            entry = memory.insert(fact("Ada lives in Paris."))
        assert store.generation() == other.generation() > 0
        with store.changing() as memory:
            memory.put(replace(entry, title="changed"))
        with other.reading() as memory:
            assert memory.get([ADA], [entry.id])[entry.id].title == "changed"
    finally:
        other.close()

"""A memory is exported as JSON Lines and imported into another home, with sources, times and links."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builtin_tools.memory.entries import EntryKind, EntrySource, KnownDocument, NewEntry, SourceKind
from builtin_tools.memory.export_reader import ImportRefused
from builtin_tools.memory.lessons.lesson import NewLesson
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.profile import Profile
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.service import FactToAdd
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.transfer import ImportedMemories, export_lines, import_lines
from engine.contract.turn import Turn
from tests.builtin_tools.memory.conftest import MemoryHome, SetClock

pytestmark = pytest.mark.spec("MEM-10")

ADA, BOB = MemoryScope("ada", "main"), MemoryScope("bob", "main")


def filled(home: MemoryHome) -> list[str]:
    source = EntrySource(SourceKind.DOCUMENT, "ada", page=3, start=0, end=4)
    document = KnownDocument(
        "d" * 32, "user:ada", "personal:general", "a.md", "A", "0" * 64, "text/markdown", "text", 1.0
    )
    with home.store.changing() as memory:
        memory.add_document(document, [NewEntry("user:ada", "personal:general", EntryKind.PASSAGE, "text", source)])
    for text in (
        "Ada lives in Rome.",
        "Ada moved to Oslo.",
        "Trains take 20 minutes to Lyon",
        "Trains take 30 minutes to Lyon",
    ):
        home.clock.later(days=1)
        home.service._add(Turn(user="ada"), FactToAdd(text))
    home.service._add(Turn(user="ada"), FactToAdd("The wifi password is hunter2.", "shared:household"))
    home.service._add(Turn(user="bob"), FactToAdd("Bob's secret is blue."))
    return list(export_lines(home.store, ADA, "2026-03-11T15:30:00+00:00"))


def test_an_import_has_everything_that_was_exported(home: MemoryHome, tmp_path: Path) -> None:
    lines = filled(home)
    assert "Bob's secret" not in "\n".join(lines)
    assert json.loads(lines[0]) == {"knackbox_memory": 1, "exported": "2026-03-11T15:30:00+00:00"}
    other = MemoryStore.open(tmp_path / "other.db", SetClock())
    try:
        assert import_lines(other, ADA, lines) == ImportedMemories(entries=6, documents=1, known=0)
        again = list(export_lines(other, ADA, "2026-03-11T15:30:00+00:00"))
        assert sorted(again) == sorted(lines)
        assert import_lines(other, ADA, lines) == ImportedMemories(entries=0, documents=1, known=6)
        assert sorted(export_lines(other, ADA, "2026-03-11T15:30:00+00:00")) == sorted(lines)
    finally:
        other.close()


def test_an_import_for_another_user_of_the_same_home_gets_new_ids(home: MemoryHome) -> None:
    lines = filled(home)
    import_lines(home.store, BOB, lines)
    with home.store.reading() as memory:
        ada, bob = memory.entries(["user:ada"]), memory.entries(["user:bob"])
        assert len(memory.documents(["user:bob"])) == 1
        assert len(memory.open_pairs(["user:bob"])) == 1
    assert {each.text for each in ada} < {each.text for each in bob}
    assert not {each.id for each in ada} & {each.id for each in bob}
    ids = {each.id: each.text for each in bob}
    assert [ids[each.successor] for each in bob if each.successor] == ["Ada moved to Oslo."]


@pytest.mark.parametrize(
    "lines",
    [["{}"], ["not json"], ['{"knackbox_memory": 1}', "[]"], ['{"knackbox_memory": 1}', '{"entry": {"id": "x"}}']],
)
def test_a_file_that_is_no_export_is_refused(store: MemoryStore, lines: list[str]) -> None:
    with pytest.raises(ImportRefused, match=r"[Ll]ine \d"):
        import_lines(store, ADA, lines)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"learned": "soon"}, "learned: Input should be a valid number"),
        ({"learned": 1e300}, "not a time"),
        ({"holds_to": float("nan")}, "not a time"),
        ({"position": 2**31}, "the position must be"),
        ({"text": None}, "text: Input should be a valid string"),
        ({"id": "x"}, "not an id"),
        ({"kind": "profile", "statement": None}, "must have a statement"),
        ({"statement": {"subject": "user", "attribute": "home", "value": 5}}, "statement.value"),
        ({"owner_of_all": "user:bob"}, "owner_of_all"),
        ({"data": []}, "data: "),
        ({"data": {"repeats": "often"}}, "repeats: "),
        ({"data": {"times": [[1.0]]}}, "times.0"),
        ({"kind": "lesson", "data": {"fix": "Use UTC."}}, "mistake: Field required"),
        ({"kind": "lesson", "data": {"mistake": "a", "fix": "b", "shown": -2}}, "shown: "),
    ],
)
def test_an_entry_that_could_not_be_used_later_is_refused_in_one_line(
    home: MemoryHome, tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    lines = filled(home)
    at = next(at for at, line in enumerate(lines) if line.startswith('{"entry"'))
    lines[at] = json.dumps({"entry": {**json.loads(lines[at])["entry"], **change}})
    other = MemoryStore.open(tmp_path / "other.db", SetClock())
    try:
        with pytest.raises(ImportRefused) as refused:
            import_lines(other, ADA, lines)
        assert str(refused.value).startswith(f"Line {at + 1} is invalid (")
        assert text in str(refused.value)
        assert "\n" not in str(refused.value)
        with other.reading() as memory:
            assert memory.entries(["user:ada"]) == []
    finally:
        other.close()


def test_an_export_with_the_same_id_twice_is_refused(home: MemoryHome) -> None:
    lines = filled(home)
    with pytest.raises(ImportRefused, match="is in an earlier line"):
        import_lines(home.store, BOB, [*lines, next(line for line in lines if line.startswith('{"entry"'))])


def test_lessons_and_the_profile_are_the_same_after_an_import(home: MemoryHome, tmp_path: Path) -> None:
    source = EntrySource(SourceKind.TOOL, "ada", "main", "c1")
    book, profile = LessonBook(home.store), Profile(home.store)
    for call in ("c1", "c2"):
        new = NewLesson("The dates have no year.", "Ask for ISO 8601.", "read_dates", "read_dates", evidence=(call,))
        book.learn("user:ada", LESSONS, new, source)
    book.draft("user:ada", LESSONS, NewLesson("It times out.", "", "fetch", "fetch"), source)
    for city in ("Rome", "Oslo"):
        profile.set("user:ada", "home_city", city, source)
    with home.store.reading() as memory:
        before = memory.entries(["user:ada"])
    other = MemoryStore.open(tmp_path / "other.db", SetClock())
    try:
        import_lines(other, ADA, export_lines(home.store, ADA, "2026-03-11T15:30:00+00:00"))
        same = {"user:ada": [LESSONS]}
        assert LessonBook(other).all(same) == book.all(same)
        assert Profile(other).history("user:ada", "home_city") == profile.history("user:ada", "home_city")
        with other.reading() as memory:
            after = memory.entries(["user:ada"])
        assert [replace(entry, generation=0) for entry in after] == [replace(entry, generation=0) for entry in before]
    finally:
        other.close()

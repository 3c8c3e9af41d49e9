"""A memory is exported as JSON Lines and imported into another home, with sources, times and links."""

import json
from pathlib import Path

import pytest

from builtin_tools.memory.entries import EntryKind, EntrySource, KnownDocument, NewEntry, SourceKind
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.service import FactToAdd
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.transfer import ImportedMemories, ImportRefused, export_lines, import_lines
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

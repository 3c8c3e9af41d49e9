"""What was forgotten is nowhere in the home; files that still contain it are named."""

import random
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from builtin_tools.memory.entries import EntryKind, EntrySource, KnownDocument, NewEntry, SourceKind
from builtin_tools.memory.home_scan import files_containing
from builtin_tools.memory.recall import RecallRequest
from builtin_tools.memory.service import FactToAdd
from builtin_tools.memory.view import EntrySelection
from engine.contract.turn import Turn
from engine.stores.backups import Backups
from engine.stores.embedder import WordLlamaEmbedder
from tests.builtin_tools.memory.conftest import MemoryHome, SetClock, open_memory

ADA, BOB = Turn(user="ada"), Turn(user="bob")
SYLLABLES = ["ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu", "pa", "re", "si", "to", "vu"]

pytestmark = pytest.mark.spec("MEM-6")


def name(pick: random.Random) -> str:
    return "".join(pick.choice(SYLLABLES) for _ in range(5))


def found_anywhere(root: Path, texts: list[str]) -> list[str]:
    """Return the texts that a file contains. This searches plainly, independently of the code under test."""
    contents = b"\xff\xff".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    codes = ("utf-8", "utf-16-le", "utf-16-be")
    return [text for text in texts if any(text.encode(code) in contents for code in codes)]


async def test_200_forgotten_sentences_are_nowhere_in_the_home(home: MemoryHome) -> None:
    pick = random.Random(7)
    secret = [f"The {name(pick)} of {name(pick).title()} is kept by {name(pick)} and {name(pick)}." for _ in range(200)]
    kept = [f"The {name(pick)} of {name(pick).title()} is kept by {name(pick)}." for _ in range(50)]
    for text in secret + kept:
        home.service._add(ADA, FactToAdd(text, pick.choice(["personal:general", "shared:household"])))
    await home.service.recall(ADA, RecallRequest("who keeps it"))  # indexed
    backups = Backups(home.root / "backups", [home.root / "memory.db"], home.clock, keep=2, every=timedelta(hours=1))
    assert backups.take_before_upgrade() is not None
    home.requests.keep(
        [("a_skill", secret[0], "ada"), ("a_skill", f"Remember this: {secret[1]}", "ada"), ("a_skill", kept[0], "ada")]
    )
    assert len(found_anywhere(home.root, secret)) == 200
    with home.store.reading() as memory:
        ids = {entry.text: entry.id for entry in memory.entries(["user:ada", "shared:household"])}
    preview = await home.service.preview(ADA, ids=[ids[text] for text in secret])
    erased = await home.service.forget(preview)
    assert (erased.entries, erased.requests, erased.remaining) == (200, 2, ())
    assert found_anywhere(home.root, secret) == []
    words = sorted(
        {word.strip(".").lower() for text in secret for word in text.split()}
        - {word.strip(".").lower() for text in kept for word in text.split()}
    )
    assert found_anywhere(home.root, words) == []
    with home.store.reading() as memory:
        assert sorted(each.text for each in memory.entries(["user:ada", "shared:household"])) == sorted(kept)
        assert memory.pending_removals() == []
    assert len(home.indexes.of("user:ada").index) + len(home.indexes.of("shared:household").index) == 50
    (backup,) = backups.all()
    with sqlite3.connect(backup.folder / "memory.db") as connection:
        assert connection.execute("SELECT count(*) FROM memory_entries").fetchone() == (50,)
    connection.close()


@pytest.mark.parametrize("seed", [61, 66, 84])
def test_copies_of_rows_that_the_database_has_moved_are_erased(
    seed: int, tmp_path: Path, embedder: WordLlamaEmbedder
) -> None:
    """With these seeds, SQLite 3.40 leaves a part of a deleted row in a page, although it overwrites deleted rows."""
    pick = random.Random(seed)
    home = open_memory(tmp_path / "home", SetClock(), embedder, lambda: f"{pick.getrandbits(128):032x}")
    source = EntrySource(SourceKind.USER, user="ada")
    made = []
    for _ in range(300):
        text = " ".join([f"{name(pick)}{name(pick)}"] * pick.randrange(1, 60))
        with home.store.changing() as memory:
            made.append(memory.insert(NewEntry("user:ada", "personal:general", EntryKind.FACT, text, source)))
    pick.shuffle(made)
    for start in range(0, 150, 25):
        with home.store.changing() as memory:
            memory.remove(made[start : start + 25])
        home.store.truncate_log()
    home.erasure.finish()
    assert found_anywhere(home.root, [entry.text.split()[0] for entry in made[:150]]) == []
    home.close()


async def test_forgetting_by_query_shows_first_what_it_would_delete(home: MemoryHome) -> None:
    for text in ("Ada's locker code is 4711.", "Ada's bicycle is green."):
        home.service._add(ADA, FactToAdd(text))
    preview = await home.service.preview(ADA, query="locker")
    assert [each.text for each in preview.entries] == ["Ada's locker code is 4711."]
    again = await home.service.preview(ADA, query="locker")
    assert again.code == preview.code
    home.service._add(ADA, FactToAdd("The locker is on the left."))
    assert (await home.service.preview(ADA, query="locker")).code != preview.code


async def test_a_file_that_still_contains_a_forgotten_text_is_named(home: MemoryHome) -> None:
    added = home.service._add(ADA, FactToAdd("Ada's locker code is 4711."))
    workspace = home.root / "workspace"
    workspace.mkdir()
    (workspace / "notes.txt").write_text("- Ada's locker code is 4711.", "utf-16-le")
    (workspace / "more.json").write_text('{"it": "Ada\'s locker code is 4711."}')
    erased = await home.service.forget(await home.service.preview(ADA, ids=[added.entry.id]))
    assert erased.remaining == (workspace / "more.json", workspace / "notes.txt")


async def test_forgetting_a_document_removes_its_text_and_passages(home: MemoryHome) -> None:
    document = KnownDocument(
        "d1",
        "user:ada",
        "personal:general",
        "plan.md",
        "Plan",
        "0" * 64,
        "text/markdown",
        "Rob the bakery at dawn. Take the rye.",
        1.0,
    )
    source = EntrySource(SourceKind.DOCUMENT, "ada", start=0, end=23)
    passages = ["Rob the bakery at dawn.", "Take the rye."]
    with home.store.changing() as memory:
        memory.add_document(
            document,
            [
                NewEntry("user:ada", "personal:general", EntryKind.PASSAGE, text, source, "Plan", position=at)
                for at, text in enumerate(passages)
            ],
        )
    await home.service.recall(ADA, RecallRequest("bakery"))
    preview = await home.service.preview(ADA, document="plan.md")
    erased = await home.service.forget(preview)
    assert (erased.entries, erased.documents, erased.remaining) == (2, 1, ())
    assert found_anywhere(home.root, ["bakery", "Take the rye", "plan.md"]) == []


async def test_forgetting_a_user_leaves_nothing_of_the_user_and_everything_of_others(home: MemoryHome) -> None:
    home.service._add(ADA, FactToAdd("Ada's locker code is 4711."))
    home.service._add(BOB, FactToAdd("Bob's bicycle is green."))
    for turn in (ADA, BOB):
        await home.service.recall(turn, RecallRequest("code or bicycle"))
    files = set((home.root / "memory_index").glob("*.db"))
    await home.service.forget_user("ada")
    assert found_anywhere(home.root, ["4711", "user:ada"]) == []
    assert len(files) == 2
    assert len(set((home.root / "memory_index").glob("*.db"))) == 1
    with home.store.reading() as memory:
        assert memory.owners() == ["user:bob"]


async def test_what_a_killed_process_had_not_erased_is_erased_later(home: MemoryHome) -> None:
    added = home.service._add(ADA, FactToAdd("Ada's locker code is 4711."))
    await home.service.recall(ADA, RecallRequest("locker"))
    backups = Backups(home.root / "backups", [home.root / "memory.db"], home.clock, keep=2, every=timedelta(hours=1))
    backups.take_before_upgrade()
    with home.store.changing() as memory:  # and then it was killed
        memory.remove([added.entry])
    assert found_anywhere(home.root, ["locker code"]) != []
    home.erasure.finish()
    assert (await home.service.recall(ADA, RecallRequest("locker"))).hits == ()
    assert found_anywhere(home.root / "backups", ["locker code"]) == []
    assert found_anywhere(home.root, ["Ada's locker code is 4711."]) == []


def test_the_search_of_the_home_finds_texts_across_blocks_and_in_every_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtin_tools.memory.home_scan._BLOCK", 16)
    text = 'Zoë said "no" (twice).'
    for at, data in enumerate(
        [text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be"), b'Zo\\u00eb said \\"no\\" (twice).']
    ):
        (tmp_path / f"{at}.bin").write_bytes(b"x" * (7 + at) + data + b"y" * 20)
    (tmp_path / "other.bin").write_bytes(b"x" * 100)
    assert [path.name for path in files_containing(tmp_path, [text])] == ["0.bin", "1.bin", "2.bin", "3.bin"]
    assert files_containing(tmp_path, ["abc", ""]) == []


def test_a_selection_of_nothing_is_empty(home: MemoryHome) -> None:
    with home.store.reading() as memory:
        assert memory.entries([], EntrySelection()) == []

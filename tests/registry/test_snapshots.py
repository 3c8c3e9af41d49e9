"""Snapshots are signed, recorded in a log that reveals every change, and can be restored. (REG-10)"""

import json
import shutil

import pytest

from engine.contract.prompt import PromptSpec
from engine.registry.static import RegistryError
from tests.registry.parts import adder, engine, on_disk, published

pytestmark = pytest.mark.spec("REG-10")


@pytest.fixture
async def kept(tmp_path):
    """Return an engine with three snapshots: of one tool, of two tools, and of two tools and a prompt."""
    async with engine(tmp_path) as one:
        for number in (1, 2):
            await one.registries.register_tool(adder(f"add_{number}"))
            one.registries.snapshots.take("ann")
        await one.registries.register_prompt(PromptSpec("hi", "Hello"))
        one.registries.snapshots.take("bob")
        yield one


def folder(one):
    return one.registries.folder


async def test_the_log_records_who_took_a_snapshot_when_and_of_what(kept):
    entries = kept.registries.snapshots.entries()
    assert [(each.n, each.who, each.action) for each in entries] == [
        (1, "ann", "snapshot"),
        (2, "ann", "snapshot"),
        (3, "bob", "snapshot"),
    ]
    assert all(each.ts and each.digest.startswith(each.snapshot[-12:]) for each in entries)
    assert kept.registries.snapshots.verify() == []
    assert (folder(kept) / "signing_key").stat().st_mode & 0o777 == 0o600


async def test_a_restore_replaces_all_three_registries_publishes_changes_and_is_logged(kept, tmp_path):
    first = kept.registries.snapshots.entries()[0].snapshot
    before = [on_disk(tmp_path), on_disk(tmp_path, "prompts")]
    already = len(published(kept))
    done = kept.registries.snapshots.restore(first, "eve")
    assert on_disk(tmp_path)["items"].keys() == {"add_1"}
    assert on_disk(tmp_path, "prompts")["items"] == {}
    assert [each.spec.name for each in (await kept.list_tools()).tools] == ["add_1"]
    assert published(kept)[already:] == [("delete", "add_2")]
    assert published(kept, "prompts") == [("upsert", "hi"), ("delete", "hi")]
    last = kept.registries.snapshots.entries()[-1]
    assert (last.who, last.action, last.snapshot) == ("eve", "restore", first)
    assert kept.registries.snapshots.verify() == []
    kept.registries.snapshots.restore(done.before, "eve")
    assert [on_disk(tmp_path), on_disk(tmp_path, "prompts")] == before


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut_last_line(root):
    log = root / "provenance.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))


def cut_last_line_and_its_snapshot(root):
    last = json.loads((root / "provenance.jsonl").read_bytes().splitlines()[-1])
    cut_last_line(root)
    (root / "snapshots" / f"{last['snapshot']}.json").unlink()


def drop_middle_line(root):
    log = root / "provenance.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + lines[2])


def swap_lines(root):
    log = root / "provenance.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[1] + lines[0] + lines[2])


def claim_to_be_somebody_else(root):
    log = root / "provenance.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"bob"', b'"ann"'))


def all_but_the_key(root):
    shutil.rmtree(root / "snapshots")
    (root / "provenance.jsonl").unlink()
    (root / "provenance.head").unlink()


def all_but_the_first_line_and_the_head(root):
    first = (root / "provenance.jsonl").read_bytes().splitlines(keepends=True)[0]
    (root / "provenance.jsonl").write_bytes(first)
    (root / "provenance.head").unlink()
    kept_snapshot = json.loads(first)["snapshot"]
    for path in snapshots(root):
        if path.stem != kept_snapshot:
            path.unlink()


def no_key_and_no_snapshots(root):
    shutil.rmtree(root / "snapshots")
    (root / "signing_key").unlink()


def deep_head(root):
    (root / "provenance.head").write_text("[" * 100_000)


def snapshots(root):
    return sorted((root / "snapshots").glob("*.json"))


TAMPERING = {
    "a bit of the log": lambda root: flip(root / "provenance.jsonl"),
    "a bit of the head": lambda root: flip(root / "provenance.head"),
    "a bit of a snapshot": lambda root: flip(snapshots(root)[0]),
    "a bit of the key": lambda root: flip(root / "signing_key"),
    "no head": lambda root: (root / "provenance.head").unlink(),
    "no log": lambda root: (root / "provenance.jsonl").unlink(),
    "no snapshot": lambda root: snapshots(root)[-1].unlink(),
    "one snapshot for another": lambda root: shutil.copy(snapshots(root)[0], snapshots(root)[-1]),
    "a snapshot of nobody": lambda root: shutil.copy(snapshots(root)[0], root / "snapshots" / "mine.json"),
    "an endless number in the head": lambda root: (root / "provenance.head").write_text('{"n": 1e999}'),
    "a head nested deeply": deep_head,
    "all but the key": all_but_the_key,
    "all but the first line and its snapshot": all_but_the_first_line_and_the_head,
    "no key": lambda root: (root / "signing_key").unlink(),
    "no key and no snapshots": no_key_and_no_snapshots,
    "the end cut off": cut_last_line,
    "the end and its snapshot cut off": cut_last_line_and_its_snapshot,
    "the middle cut out": drop_middle_line,
    "another order": swap_lines,
    "another name": claim_to_be_somebody_else,
}


@pytest.mark.parametrize("how", TAMPERING)
async def test_every_change_to_a_snapshot_or_the_log_is_detected(kept, how):
    TAMPERING[how](folder(kept))
    assert kept.registries.snapshots.verify() != []


NOT_WHOLE = [
    "a bit of the log",
    "another name",
    "the end cut off",
    "all but the key",
    "all but the first line and its snapshot",
    "no key",
]


@pytest.mark.parametrize("how", NOT_WHOLE)
async def test_with_a_damaged_log_nothing_is_restored_or_added(kept, how, tmp_path):
    first = kept.registries.snapshots.entries()[0].snapshot
    TAMPERING[how](folder(kept))
    before = on_disk(tmp_path)
    for act in (lambda: kept.registries.snapshots.restore(first, "eve"), lambda: kept.registries.snapshots.take("eve")):
        with pytest.raises(RegistryError, match="log is damaged"):
            act()
    assert on_disk(tmp_path) == before


async def test_a_snapshot_that_was_changed_or_is_unknown_is_not_restored(kept, tmp_path):
    entry = kept.registries.snapshots.entries()[0]
    path = folder(kept) / "snapshots" / f"{entry.snapshot}.json"
    path.write_text(path.read_text().replace("add_1", "add_9"))
    before = on_disk(tmp_path)
    for snapshot, why in [
        (entry.snapshot, "has been altered"),
        ("../../tools", "no snapshot"),
        ("", "no snapshot"),
    ]:
        with pytest.raises(RegistryError, match=why):
            kept.registries.snapshots.restore(snapshot, "eve")
    assert on_disk(tmp_path) == before


async def test_an_incomplete_line_of_a_killed_writer_is_ignored(kept):
    log = folder(kept) / "provenance.jsonl"
    head = (folder(kept) / "provenance.head").read_bytes()
    entry = kept.registries.snapshots.take("ann")
    (folder(kept) / "provenance.head").write_bytes(head)  # killed between the line and the head
    assert kept.registries.snapshots.verify() == []
    with log.open("ab") as stream:
        stream.write(b'{"n": 5, "ts"')
    assert kept.registries.snapshots.verify() == []
    assert kept.registries.snapshots.take("ann").n == entry.n + 1
    assert kept.registries.snapshots.verify() == []


async def test_a_first_snapshot_that_was_killed_can_be_taken_again(kept, tmp_path):
    async with engine(tmp_path / "new") as other:
        root = folder(other)
        root.mkdir(exist_ok=True)
        shutil.copy(folder(kept) / "provenance.head", root)  # killed before the key was in its place
        shutil.copy(folder(kept) / "signing_key", root / "signing_key.new")
        assert other.registries.snapshots.take("ann").n == 1
        assert other.registries.snapshots.verify() == []


async def test_the_length_of_the_log_is_signed_from_the_first_snapshot_on(tmp_path):
    async with engine(tmp_path) as one:
        entry = one.registries.snapshots.take("ann")
        assert one.registries.snapshots.verify() == []
        (folder(one) / "provenance.head").unlink()
        assert "is missing" in one.registries.snapshots.verify()[0]
        with pytest.raises(RegistryError, match=r"log is damaged.*to start over"):
            one.registries.snapshots.restore(entry.snapshot, "eve")


@pytest.mark.parametrize(
    "held",
    [r'"\ud800"', "[" * 65 + "]" * 65, "[" * 100_000, "1e999"],
    ids=["no text", "deep", "very deep", "no number"],
)
async def test_an_unreadable_registry_is_reported_by_name_and_no_snapshot_is_left(kept, tmp_path, held):
    path = tmp_path / "registries" / "prompts.json"
    before = snapshots(folder(kept))
    path.write_text('{"items": {"p": ' + held + "}}")
    with pytest.raises(RegistryError, match=r"prompts\.json: it is not JSON"):
        kept.registries.snapshots.take("ann")
    assert snapshots(folder(kept)) == before
    assert kept.registries.snapshots.verify() == []


async def test_a_key_readable_by_other_users_is_not_used(kept):
    (folder(kept) / "signing_key").chmod(0o644)
    with pytest.raises(RegistryError, match="chmod 600"):
        kept.registries.snapshots.take("ann")

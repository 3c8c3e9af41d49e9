"""Provenance and signatures: a skill that was changed after it was signed is never run (SKILL-17)."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from acquired_skills.model.skill import NotSigned, SkillDamaged, SkillState, SkillUnsignable
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.reconcile import ReconcileReport, reconcile
from acquired_skills.store.skill_store import SkillStore
from acquired_skills.store.trust import Trust, signer
from acquired_skills.tools.skill_tool import skill_tool
from engine.contract.failure import ToolFailure
from engine.registry.signing import SigningKey
from tests.skills.parts import NoSandbox, context, opened_library, opened_records, skill
from tests.skills.store.test_skill_store import CODE, TESTS, publish

pytestmark = pytest.mark.spec("SKILL-17")


def key(path: Path) -> SigningKey:
    made = SigningKey(path)
    made.make(lambda _: None)
    return made


@pytest.fixture
def store(tmp_path: Path) -> SkillStore:
    """Return a store with two signed skills: version 2 of add_one, and version 1 of add_two."""
    made = SkillStore(tmp_path / "acquired_skills", Trust(key(tmp_path / "key")))
    for name in ("add_one", "add_one", "add_two"):
        publish(made, name)
    return made


def front(store: SkillStore, name: str = "add_one") -> Path:
    return store.folder(name) / "SKILL.md"


def test_a_signature_covers_the_whole_file_and_names_its_key(store: SkillStore, tmp_path: Path) -> None:
    public = SigningKey(tmp_path / "key").public
    now = store.read("add_one")
    assert store.signer(now) == public
    assert [store.signer(one) for one in store.history("add_one")] == [public, public]
    with store.lock():
        store.set_state("add_one", SkillState.DISABLED)
    assert store.signer(store.read("add_one")) == public
    assert store.read("add_one") == replace(now, state=SkillState.DISABLED)


def edit(old: bytes, new: bytes) -> Callable[[SkillStore], None]:
    def change(store: SkillStore) -> None:
        data = front(store).read_bytes()
        assert old in data
        front(store).write_bytes(data.replace(old, new, 1))

    return change


def change_code_and_hash(store: SkillStore) -> None:
    """Change the code and its hash, like an attacker who knows the format."""
    evil = skill("add_one", 2, b"evil\n", TESTS)
    was, now = store.read("add_one").code_sha256, evil.code_sha256
    (store.folder("add_one") / "scripts" / "add_one.py").write_bytes(b"evil\n")
    edit(was.encode(), now.encode())(store)


def another_skills_folder(store: SkillStore) -> None:
    shutil.rmtree(store.folder("add_one"))
    shutil.copytree(store.folder("add_two"), store.folder("add_one"))


def renamed_after_another(store: SkillStore) -> None:
    data = front(store, "add_two").read_bytes()
    front(store).write_bytes(data.replace(b"add-two", b"add-one"))


def replace_by_earlier_version(store: SkillStore) -> None:
    """Replace a version by the complete, correctly signed earlier one."""
    older = store.folder("add_one") / "versions" / "1"
    for path in ("SKILL.md", "scripts/add_one.py", "tests/test_add_one.py"):
        shutil.copyfile(older / path, store.folder("add_one") / path)


def the_whole_folder_of_before(store: SkillStore) -> None:
    older = shutil.move(store.folder("add_one") / "versions" / "1", store.root / ".set-aside" / "x")
    shutil.rmtree(store.folder("add_one"))
    shutil.move(older, store.folder("add_one"))


def signature_of_another(store: SkillStore) -> None:
    line = next(line for line in front(store, "add_two").read_bytes().splitlines() if b"signature" in line)
    own = next(line for line in front(store).read_bytes().splitlines() if b"signature" in line)
    edit(own, line)(store)


TAMPERED: list[Callable[[SkillStore], None]] = [
    edit(b"What add_one does.", b"What add_one doez."),
    edit(b"knackbox-state: probation", b"knackbox-state: active"),
    edit(b"knackbox-version: '2'", b"knackbox-version: '3'"),
    edit(b"knackbox-destinations: '[]'", b"knackbox-destinations: '[\"evil.example:443\"]'"),
    edit(b"## Proof", b"## Proof of more"),
    edit(b"ed25519:", b"ed25518:"),
    edit(b"\n---\n", b"\n  knackbox-signature: x\n---\n"),
    change_code_and_hash,
    another_skills_folder,
    renamed_after_another,
    replace_by_earlier_version,
    the_whole_folder_of_before,
    signature_of_another,
]


def started(store: SkillStore) -> ReconcileReport:
    with opened_records(store.root.parent) as records:
        return reconcile(SkillStore(store.root, store.trust), Ledger(records))


@pytest.mark.parametrize("tamper", TAMPERED)
def test_a_skill_that_was_changed_after_signing_is_set_aside_with_a_one_line_reason(
    store: SkillStore, tamper: Callable[[SkillStore], None]
) -> None:
    assert started(store).aside == ()
    tamper(store)
    report = started(store)
    assert [one.name for one in report.aside] == ["add_one"]
    assert "\n" not in report.aside[0].reason
    assert store.names() == ["add_two"]
    assert (report.aside[0].kept / "SKILL.md").exists()


@pytest.mark.parametrize("tamper", TAMPERED[:9])
async def test_a_changed_skill_does_not_run_in_an_engine_that_was_already_open(
    store: SkillStore, tmp_path: Path, tamper: Callable[[SkillStore], None]
) -> None:
    async with opened_library(tmp_path, trust=store.trust) as library:
        found = await library.find("add_one")
        assert found is not None
        before = front(store).stat()
        tamper(store)
        os.utime(front(store), ns=(before.st_atime_ns, before.st_mtime_ns))  # hides the change
        box = NoSandbox()  # fails the test if anything runs
        with pytest.raises(ToolFailure) as refused:
            await skill_tool(found, library).run(context(library, box, tmp_path / "w"), {"number": 1})
    assert refused.value.reason == "skill_damaged"


async def test_records_that_contradict_the_signed_file_are_not_used(store: SkillStore, tmp_path: Path) -> None:
    async with opened_library(tmp_path, trust=store.trust) as library:
        assert await library.find("add_one") is not None
    with sqlite3.connect(tmp_path / "records.db") as records:
        records.execute(
            'update skills set skill = replace(skill, \'"destinations": []\', \'"destinations": ["a.b:1"]\')'
        )
    async with opened_library(tmp_path, trust=store.trust) as library:
        found = await library.find("add_one")
        assert found is not None
        assert found.destinations == ("a.b:1",)
        with pytest.raises(SkillDamaged, match="differs from the records"):
            await library.code(found)
        await library.folders.verify()
        mended = await library.get("add_one")
        assert mended.destinations == ()
        assert await library.code(mended) == CODE


def test_without_its_signature_a_skill_is_not_offered_until_a_person_signs_it(store: SkillStore) -> None:
    data = front(store).read_bytes()
    line = next(line for line in data.splitlines(keepends=True) if b"signature" in line)
    front(store).write_bytes(data.replace(line, b""))
    report = started(store)
    assert (report.aside, len(report.foreign)) == ((), 1)
    assert "is not signed" in report.foreign[0]
    assert "`knackbox skills sign`" in report.foreign[0]
    with store.lock(), pytest.raises(NotSigned):
        store.set_state("add_one", SkillState.ACTIVE)
    with store.lock():
        assert store.sign("add_one").version == 2
    assert started(store).foreign == ()


def test_a_foreign_signature_counts_only_if_its_key_is_trusted(store: SkillStore, tmp_path: Path) -> None:
    public = SigningKey(tmp_path / "key").public
    stranger = SkillStore(store.root, Trust(key(tmp_path / "other")))
    with pytest.raises(NotSigned, match=f"signed by {public}, which is not trusted here"):
        stranger.read("add_one")
    friend = SkillStore(store.root, Trust(key(tmp_path / "other"), frozenset({public})))
    assert friend.read("add_one").version == 2
    reader = SkillStore(store.root, Trust(None, frozenset({public})))
    assert reader.read("add_one").version == 2
    with reader.lock(), pytest.raises(SkillUnsignable, match="no key to sign with"):
        reader.set_state("add_one", SkillState.DISABLED)


def test_a_tampered_skill_is_not_signed_again(store: SkillStore) -> None:
    edit(b"What add_one does.", b"What add_one doez.")(store)
    with store.lock(), pytest.raises(SkillDamaged, match="changed after it was signed"):
        store.sign("add_one")


def test_without_any_key_nothing_is_signed_or_checked(tmp_path: Path) -> None:
    plain = SkillStore(tmp_path / "s", Trust(SigningKey(tmp_path / "none")))
    publish(plain)
    assert b"signature" not in front(plain).read_bytes()
    assert plain.signer(plain.read("add_one")) == ""
    key(tmp_path / "none")  # as if another process had made it
    with pytest.raises(NotSigned):
        plain.read("add_one")


def test_a_description_that_looks_like_a_signature_is_not_one(store: SkillStore) -> None:
    for name, text in (
        ("fake_a", "x\n  knackbox-signature: ed25519:" + "0" * 64 + ":" + "0" * 128),
        ("fake_b", "a\n---\n"),
    ):
        made = replace(skill(name, 1, CODE, TESTS), description=text)
        with store.lock():
            store.publish(made, CODE, TESTS, replaces=0)
        assert store.read(name) == made
        assert signer(front(store, name).read_bytes(), "x")


@pytest.mark.spec("SKILL-11", "SKILL-9")
@pytest.mark.parametrize("where", ["versions", "tombstone"])
async def test_rollback_and_restore_refuse_changed_files(store: SkillStore, tmp_path: Path, where: str) -> None:
    async with opened_library(tmp_path, trust=store.trust) as library:
        if where == "versions":
            victim = store.folder("add_one") / "versions" / "1"
        else:
            await library.delete("add_one")
            victim = store.deleted / "add-one-2"
        (victim / "scripts" / "add_one.py").write_bytes(b"evil\n")
        with pytest.raises(SkillDamaged, match="was changed after it was admitted"):
            await (library.rollback("add_one") if where == "versions" else library.restore("add_one"))
        found = await library.find("add_one")
        assert (found.version if found else None) == (2 if where == "versions" else None)
        assert victim.is_dir()


async def test_a_rollback_records_who_did_it_and_keeps_the_origin_of_the_code(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "acquired_skills", Trust(key(tmp_path / "key")))
    for version in (1, 2):
        made = replace(skill("add_one", version, CODE, TESTS), provenance={"by": "create_skill", "call": f"c{version}"})
        with store.lock():
            store.publish(made, CODE, TESTS, replaces=version - 1)
    async with opened_library(tmp_path, trust=store.trust) as library:
        back = await library.rollback("add_one", by="somebody")
        assert back.provenance == {"by": "create_skill", "call": "c1", "rolled_back": "to version 1, somebody"}
        assert await library.code(await library.get("add_one")) == CODE

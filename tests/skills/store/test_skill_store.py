import shutil
from pathlib import Path

import pytest

from acquired_skills.model.skill import Skill, SkillChanged, SkillDamaged, SkillMissing, SkillState
from acquired_skills.store.skill_store import SkillStore
from tests.skills.parts import skill

CODE, TESTS = b"code\n", b"tests\n"


def publish(store: SkillStore, name: str = "add_one", code: bytes = CODE) -> Skill:
    with store.lock():
        version = store.next_version(name)
        made = skill(name, version, code, TESTS)
        current = store.read(name).version if name in store.names() else 0
        store.publish(made, code, TESTS, replaces=current)
    return made


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.spec("SKILL-10")
def test_a_skill_is_a_folder_with_the_documented_layout(tmp_path: Path) -> None:
    store = SkillStore(tmp_path)
    made = publish(store)
    assert tree(tmp_path / "add-one") == {"SKILL.md", "scripts/add_one.py", "tests/test_add_one.py"}
    assert store.read("add_one") == made
    assert store.names() == ["add_one"]
    assert store.code(made) == CODE
    assert list(store.staging.iterdir()) == []


@pytest.mark.spec("SKILL-10")
def test_every_earlier_version_stays_complete(tmp_path: Path) -> None:
    store = SkillStore(tmp_path)
    made = [publish(store, code=f"code {i}\n".encode()) for i in range(4)]
    assert [one.version for one in store.history("add_one")] == [1, 2, 3, 4]
    assert [store.code(one) for one in made] == [b"code 0\n", b"code 1\n", b"code 2\n", b"code 3\n"]
    assert {str(i) for i in (1, 2, 3)} == {path.name for path in (tmp_path / "add-one" / "versions").iterdir()}
    assert list(store.staging.iterdir()) == []


def test_a_version_made_from_an_outdated_view_is_not_written(tmp_path: Path) -> None:
    store = SkillStore(tmp_path)
    publish(store)
    with store.lock(), pytest.raises(SkillChanged, match="another process"):
        store.publish(skill(version=1, code=b"mine\n"), b"mine\n", TESTS, replaces=0)
    assert store.code(store.read("add_one")) == CODE


@pytest.mark.spec("SKILL-11")
def test_a_deleted_skill_is_kept_and_can_be_restored(tmp_path: Path) -> None:
    store = SkillStore(tmp_path)
    publish(store)
    publish(store, code=b"second\n")
    with store.lock():
        store.delete("add_one")
    assert store.names() == []
    assert (store.deleted / "add-one-2" / "versions" / "1" / "SKILL.md").is_file()
    with store.lock():
        assert store.restore("add_one").version == 2
    assert store.code(store.read("add_one")) == b"second\n"
    assert [one.version for one in store.history("add_one")] == [1, 2]


def test_versions_are_counted_on_after_a_skill_was_deleted(tmp_path: Path) -> None:
    store = SkillStore(tmp_path)
    for expected in (1, 2, 3):
        assert publish(store).version == expected
        with store.lock():
            store.delete("add_one")
    with store.lock(), pytest.raises(SkillMissing):
        store.delete("add_one")
    publish(store)
    with store.lock(), pytest.raises(SkillChanged, match="There is a new skill"):
        store.restore("add_one")


def test_folders_with_other_names_are_not_versions(tmp_path: Path) -> None:
    store = SkillStore(tmp_path)
    publish(store)
    for name in ("add-one-\u00b2", "add-one-\u0663", f"add-one-{10**30}"):
        (store.deleted / name).mkdir()
    (store.folder("add_one") / "versions" / str(10**30)).mkdir(parents=True)
    assert publish(store).version == 2


def test_names_with_a_common_beginning_are_not_confused(tmp_path: Path) -> None:
    store = SkillStore(tmp_path)
    publish(store, "add_one")
    publish(store, "add_one_2")
    with store.lock():
        store.delete("add_one_2")
        assert store.next_version("add_one") == 2
        with pytest.raises(SkillMissing):
            store.restore("add_one")


def test_the_state_is_in_the_folder(tmp_path: Path) -> None:
    store = SkillStore(tmp_path)
    publish(store)
    before = store.stamp("add_one")
    with store.lock():
        store.set_state("add_one", SkillState.DISABLED)
    assert SkillStore(tmp_path).read("add_one").state is SkillState.DISABLED
    assert store.stamp("add_one") != before


@pytest.mark.parametrize("victim", ["SKILL.md", "scripts/add_one.py", "tests/test_add_one.py"])
@pytest.mark.parametrize("harm", ["edit", "remove"])
def test_a_file_that_was_changed_after_admission_is_never_returned(tmp_path: Path, victim: str, harm: str) -> None:
    store = SkillStore(tmp_path)
    made = publish(store)
    path = tmp_path / "add-one" / victim
    if harm == "edit":
        path.write_bytes(b"something else")
    else:
        path.unlink()
    with pytest.raises(SkillDamaged, match=path.name):
        store.read("add_one")
    with store.lock():
        kept = store.set_aside("add_one")
    assert store.names() == []
    assert len(tree(kept)) == (3 if harm == "edit" else 2)
    assert made.name == "add_one"


def test_a_skill_in_a_folder_of_another_name_is_damaged(tmp_path: Path) -> None:
    store = SkillStore(tmp_path)
    publish(store)
    shutil.copytree(tmp_path / "add-one", tmp_path / "add-two")
    with pytest.raises(SkillDamaged, match="add-two"):
        store.read("add_two")


def test_setting_a_name_aside_twice_keeps_both_folders(tmp_path: Path) -> None:
    store = SkillStore(tmp_path)
    for _ in range(2):
        publish(store)
        with store.lock():
            store.set_aside("add_one")
    assert {path.name for path in store.aside.iterdir()} == {"add-one-1", "add-one-2"}

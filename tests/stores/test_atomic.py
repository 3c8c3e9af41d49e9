"""Atomic files and folders: complete or absent, without leftovers."""

from pathlib import Path
from typing import Any

import pytest

from engine.stores.atomic import (
    TEMPORARY,
    publish_folder,
    remove_leftovers,
    replace_folder,
    staging_folder,
    write_atomic,
)
from tests.descriptors import open_descriptors
from tests.stores.processes import other

SIZE = 200_000


def rewrite_for_ever(pipe: Any, file: Path) -> None:
    pipe.send("ready")
    while True:
        for byte in b"ab":
            write_atomic(file, bytes([byte]) * SIZE)


def stage_and_wait(pipe: Any, folder: Path) -> None:
    with staging_folder(folder) as staged:
        (staged / "half").write_text("not done")
        pipe.send(staged)
        pipe.recv()


def publish_for_ever(pipe: Any, folder: Path) -> None:
    number = 0
    pipe.send("ready")
    while True:
        with staging_folder(folder) as staged:
            (staged / "one").write_text(str(number))
            (staged / "two").write_text(str(number))
            publish_folder(staged, folder / f"skill-{number}")
        number += 1


@pytest.mark.spec("STATE-1", "SKILL-10")
def test_readers_and_kills_never_find_a_partial_file(tmp_path: Path) -> None:
    file = tmp_path / "registry.json"
    write_atomic(file, b"a" * SIZE)
    with other(rewrite_for_ever, file) as writer:
        writer.hear()
        for _ in range(200):
            assert file.read_bytes() in (b"a" * SIZE, b"b" * SIZE)
        writer.kill()
    assert file.read_bytes() in (b"a" * SIZE, b"b" * SIZE)
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.spec("SKILL-10")
def test_a_kill_leaves_published_folders_complete_and_recognizable_leftovers(tmp_path: Path) -> None:
    for attempt in range(5):
        home = tmp_path / str(attempt)
        home.mkdir()
        with other(publish_for_ever, home) as writer:
            writer.hear()
            writer.process.join(0.01 * attempt)
            writer.kill()
        remove_leftovers(home)
        for skill in home.iterdir():
            assert skill.name.startswith("skill-")
            assert {item.name: item.read_text() for item in skill.iterdir()} == dict.fromkeys(
                ("one", "two"), skill.name.removeprefix("skill-")
            )


@pytest.mark.spec("SKILL-10")
def test_files_that_are_still_being_prepared_are_not_removed(tmp_path: Path) -> None:
    with other(stage_and_wait, tmp_path) as writer:
        staged = writer.hear()
        assert remove_leftovers(tmp_path) == []
        assert staged.is_dir()
        writer.kill()
    assert remove_leftovers(tmp_path) == [staged]
    assert list(tmp_path.iterdir()) == []


def test_a_write_keeps_the_mode_and_replaces_a_link_instead_of_following_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomic(file, b"one")
    file.chmod(0o640)
    write_atomic(file, b"two")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"two", 0o640)
    outside = tmp_path / "outside"
    outside.write_bytes(b"safe")
    link = tmp_path / "link"
    link.symlink_to(outside)
    write_atomic(link, b"new")
    assert (outside.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"safe", b"new", False)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").write_text("x")
    with pytest.raises(OSError, match="folder"):
        write_atomic(tmp_path / "folder", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "missing" / "file", b"data")


def test_publishing_never_replaces_and_replacing_keeps_the_old_folder(tmp_path: Path) -> None:
    final = tmp_path / "skill"
    with staging_folder(tmp_path) as staged:
        (staged / "version").write_text("1")
        publish_folder(staged, final)
    assert (final / "version").read_text() == "1"
    with staging_folder(tmp_path) as staged:
        (staged / "version").write_text("2")
        with pytest.raises(FileExistsError):
            publish_folder(staged, final)
        assert (final / "version").read_text() == "1"
        replace_folder(staged, final)
        assert (final / "version").read_text() == "2"
        assert (staged / "version").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["skill"]


def test_staging_cleans_up_when_preparing_fails(tmp_path: Path) -> None:
    def prepare() -> None:
        with staging_folder(tmp_path) as staged:
            assert staged.name.startswith(TEMPORARY)
            (staged / "deep").mkdir()
            raise LookupError

    with pytest.raises(LookupError):
        prepare()
    assert list(tmp_path.iterdir()) == []


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    for number in range(20):
        write_atomic(tmp_path / "file", b"x")
        with staging_folder(tmp_path) as staged:
            publish_folder(staged, tmp_path / f"done-{number}")
    remove_leftovers(tmp_path)
    assert [each for each in open_descriptors() if each.startswith(str(tmp_path))] == []

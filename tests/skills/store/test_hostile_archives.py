"""Malicious archives are refused in one line, with nothing left behind and nothing run (SKILL-15)."""

import io
import os
import socket
import stat
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acquired_skills.portable.importing import import_skills
from acquired_skills.store.archive import Files, Unreadable, read_skills
from tests.skills.parts import NoSandbox, opened_library

pytestmark = pytest.mark.spec("SKILL-15")

GOOD = b"---\nname: pdf-forms\ndescription: Fill in PDF forms by hand.\n---\nOpen it.\n"


def zip_of(*entries: tuple[str | zipfile.ZipInfo, bytes], packed: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", packed) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return made.getvalue()


def special(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = mode << 16
    return entry


def lying(data: bytes) -> bytes:
    """Return the archive with a false size of ten bytes for its largest file, in both headers."""
    real = 1 << 20
    return data.replace(struct.pack("<I", real), struct.pack("<I", 10))


SKILL = ("SKILL.md", GOOD)
ZIPS: dict[str, tuple[bytes, str]] = {
    "climbs out": (zip_of(SKILL, ("../evil.py", b"x")), "not a plain, relative path"),
    "climbs out later": (zip_of(SKILL, ("scripts/../../evil.py", b"x")), "not a plain, relative path"),
    "is absolute": (zip_of(SKILL, ("/tmp/evil.py", b"x")), "not a plain, relative path"),
    "has a drive": (zip_of(SKILL, ("C:evil.py", b"x")), "not a plain, relative path"),
    "has backslashes": (zip_of(SKILL, ("..\\evil.py", b"x")), "not a plain, relative path"),
    "has a terminal's escape": (zip_of(SKILL, ("a\x1b[2J.py", b"x")), "not a plain, relative path"),
    "ends with a dot": (zip_of(SKILL, ("scripts/a.py.", b"x")), "not a plain, relative path"),
    "is a link": (zip_of(SKILL, (special("link", stat.S_IFLNK | 0o777), b"/etc/passwd")), "a link or a device"),
    "is a device": (zip_of(SKILL, (special("dev", stat.S_IFCHR | 0o666), b"")), "a link or a device"),
    "is a pipe": (zip_of(SKILL, (special("pipe", stat.S_IFIFO | 0o666), b"")), "a link or a device"),
    "is deep": (zip_of(SKILL, ("a/" * 20 + "b", b"x")), "too deep"),
    "is a bomb": (zip_of(SKILL, ("zeros", bytes(3 << 20))), "as a zip bomb"),
    "is a bomb in sum": (
        zip_of(SKILL, *((f"f{i}", os.urandom(3 << 20)) for i in range(6)), packed=0),
        "more than 16,777,216",
    ),
    "lies about its size": (lying(zip_of(SKILL, ("zeros", bytes(1 << 20)))), "readable zip file|zip bomb"),
    "is one large file": (zip_of(SKILL, ("big", os.urandom(5 << 20))), "too large"),
    "is many files": (zip_of(SKILL, *((f"f{i}", b"") for i in range(600))), "more than 512 files"),
    "is very many": (zip_of(SKILL, *((f"f{i}", b"") for i in range(1100))), "1,101 entries"),
    "has a name twice": (
        zip_of(SKILL, ("SKILL.mx", b"other")).replace(b"SKILL.mx", b"SKILL.md"),
        "two entries with the same name",
    ),
    "differs by case": (zip_of(SKILL, ("skill.MD", b"other")), "are the same name on some systems"),
    "differs by composition": (
        zip_of(SKILL, ("caf\u00e9", b"1"), ("cafe\u0301", b"2")),
        "are the same name on some systems",
    ),
    "is file and folder": (zip_of(SKILL, ("a", b"1"), ("a/b", b"2")), "are the same name on some systems"),
    "nests a zip": (zip_of(SKILL, ("more.bin", zip_of(SKILL))), "a nested archive"),
    "nests a gzip": (zip_of(SKILL, ("x.txt", b"\x1f\x8b\x08more")), "a nested archive"),
    "is no zip": (b"PK but no more", "readable zip file"),
    "is cut off": (zip_of(SKILL)[:-30], "readable zip file"),
    "has no skill": (zip_of(("README.md", b"x")), "no SKILL.md"),
    "has half a skill": (zip_of(("a/SKILL.md", GOOD), ("b/x", b"x")), "no SKILL.md"),
    "has two of one name": (zip_of(("a/SKILL.md", GOOD), ("b/SKILL.md", GOOD)), "more than one skill called pdf-forms"),
    "is packed oddly": (zip_of(SKILL, packed=zipfile.ZIP_BZIP2), "unsupported method"),
    "is no text": (zip_of(("SKILL.md", b"---\nname: \xff\xfe\n---\n")), "not UTF-8"),
    "has aliases": (
        zip_of(("SKILL.md", b"---\nname: a\nx: &x [1,1]\ny: &y [*x,*x]\ndescription: z\n---\n")),
        "anchors or aliases",
    ),
    "has huge YAML": (
        zip_of(("SKILL.md", b"---\n" + b"".join(b"- %d\n" % i for i in range(50_000)) + b"---\n")),
        "at most 262,144",
    ),
    "has a tag of Python": (
        zip_of(("SKILL.md", b"---\nname: !!python/object/apply:os.system [x]\ndescription: a\n---\n")),
        "front matter",
    ),
    "has a bad name": (zip_of(("SKILL.md", b"---\nname: ../x\ndescription: a\n---\n")), "name"),
    "is a pipeline without one": (
        zip_of(("SKILL.md", b"---\nname: a\ndescription: b\nmetadata:\n  knackbox-kind: composed\n---\n")),
        "has no scripts/a.json",
    ),
    "is of no known kind": (
        zip_of(("SKILL.md", b"---\nname: a\ndescription: b\nmetadata:\n  knackbox-kind: native\n---\n")),
        "unknown kind `native`",
    ),
}


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("what", ZIPS)
async def test_a_malicious_archive_is_refused_and_leaves_nothing_behind(what: str, tmp_path: Path) -> None:
    data, says = ZIPS[what]
    (tmp_path / "in").mkdir()
    offered = tmp_path / "in" / "skill.zip"
    offered.write_bytes(data)
    async with opened_library(tmp_path, NoSandbox()) as library:
        before = everything(tmp_path)
        with pytest.raises(Unreadable, match=says) as refused:
            await import_skills(offered, library, provenance={})
        assert "\n" not in str(refused.value)
        assert "\x1b" not in str(refused.value)
        assert everything(tmp_path) == before
        assert await library.skills() == []


def link_to_a_file(folder: Path) -> None:
    (folder / "passwd").symlink_to("/etc/passwd")


def link_to_a_folder(folder: Path) -> None:
    (folder / "etc").symlink_to("/etc")


def skill_file_that_is_a_link(folder: Path) -> None:
    (folder / "SKILL.md").rename(folder.parent / "real.md")
    (folder / "SKILL.md").symlink_to(folder.parent / "real.md")


def a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def a_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "s"))


def a_sparse_giant(folder: Path) -> None:
    with (folder / "giant").open("wb") as file:
        file.truncate(1 << 40)


def too_many(folder: Path) -> None:
    for i in range(600):
        (folder / f"f{i}").touch()


def folders_without_end(folder: Path) -> None:
    at = folder
    for _ in range(300):
        at /= "d"
    at.mkdir(parents=True)


def alike(folder: Path) -> None:
    (folder / "a.py").touch()
    (folder / "A.py").touch()


HARM: list[Callable[[Path], None]] = [
    link_to_a_file, link_to_a_folder, skill_file_that_is_a_link, a_pipe, a_socket, a_sparse_giant, too_many, folders_without_end, alike,
]  # fmt: skip


@pytest.mark.parametrize("harm", HARM)
async def test_a_malicious_folder_is_refused_and_leaves_nothing_behind(
    harm: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in" / "pdf-forms"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(GOOD)
    monkeypatch.chdir(folder)
    harm(folder)
    async with opened_library(tmp_path, NoSandbox()) as library:
        before = everything(tmp_path)
        with pytest.raises(Unreadable):
            await import_skills(folder, library, provenance={})
        assert everything(tmp_path) == before


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.text(st.sampled_from("ab./\\:~\0\u202e "), min_size=1, max_size=8), max_size=4),
    cut=st.integers(0, 400),
    flip=st.integers(0, 255),
)
def test_any_bytes_are_either_read_or_refused(tmp_path: Path, names: list[str], cut: int, flip: int) -> None:
    data = bytearray(zip_of(SKILL, *((name, b"x") for name in dict.fromkeys(names) if "\0" not in name)))
    data[cut % len(data)] ^= flip
    path = tmp_path / "x.zip"
    path.write_bytes(data)
    skills: list[Files] = []
    with suppress(Unreadable):
        skills = read_skills(path)
    for files in skills:
        for name in files:
            assert not Path(name).is_absolute()
            assert ".." not in Path(name).parts

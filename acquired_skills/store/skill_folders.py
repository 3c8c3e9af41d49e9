"""`SkillFolders`: finds skills in folders, and reads and checks them.

    <root>/<skill-name>/SKILL.md, scripts/<skill_name>.py, tests/test_<skill_name>.py, versions/<n>/… (earlier ones)
                        scripts/… may have extra files
                        a composed skill has scripts/<skill_name>.json and tests/<skill_name>.json

Readers need no lock, because a folder changes atomically (`acquired_skills.store.skill_store`).
"""

import hashlib
import os
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from acquired_skills.model.names import PATTERN, folder_name, skill_name
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.skill import Skill, SkillDamaged, SkillKind, SkillMissing
from acquired_skills.store.skill_file import parse
from acquired_skills.store.trust import Trust, signer

SKILL_FILE = "SKILL.md"
VERSIONS = "versions"
_MOST_BYTES = 4 << 20  # maximum size of one file in bytes; admitted files have at most a hundredth of this
_PARSED = 1024
_SETTLED_NS = 1_000_000_000
_MOST_DIGITS = 9  # maximum number of digits of a version number, so that the next one still fits into the records


class SkillFolders:
    """Reads the skills below one root folder."""

    def __init__(self, root: Path, trust: Trust | None = None) -> None:
        """Create a reader of the skills below a root folder.

        Args:
            root: The root folder.
            trust: The trusted keys and the signing key; by default there are none, and nothing is signed.
        """
        self.root = root
        self.trust = trust or Trust()
        self._parsed = lru_cache(maxsize=_PARSED)(self._parse)  # the files are small; each call of a skill reads one

    def names(self) -> list[str]:
        """Return the names of all skill folders, even if the folders cannot be used."""
        with os.scandir(self.root) as entries:
            folders = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        names = sorted(skill_name(folder) for folder in folders)
        return [name for name in names if PATTERN.fullmatch(name) and folder_name(name) in folders]

    def root_stamp(self) -> str:
        """Return a stamp that changes when a skill folder is added, removed, renamed or replaced.

        The stamp is "" shortly after a change. Some file systems store times in steps of 10 ms, so the folder could
        change again without a change of the stamp.
        """
        found = self.root.stat()
        if time.time_ns() - found.st_mtime_ns < _SETTLED_NS:
            return ""
        return f"{found.st_mtime_ns}.{found.st_ino}"

    def folder(self, name: str) -> Path:
        return self.root / folder_name(name)

    def stamp(self, name: str) -> str:
        """Return a stamp that changes when a file of the skill changes; "" if a file is missing.

        This calls `stat` three to nine times, depending on the kind of the skill.
        """
        for kind in SkillKind:
            try:
                found = [path.stat() for path in self._files(self.folder(name), name, kind)]
            except OSError:
                continue
            return " ".join(f"{one.st_mtime_ns}.{one.st_size}.{one.st_ino}" for one in found)
        return ""

    def read(self, name: str) -> Skill:
        """Return the current version after checking its hashes.

        Raises:
            SkillMissing: There is no such skill.
            SkillDamaged: Its folder cannot be used.
        """
        if not self.folder(name).is_dir():
            raise SkillMissing(f"There is no skill `{name}`.")
        return self._read(self.folder(name), name)

    def code(self, skill: Skill) -> bytes:
        """Return the source of exactly this version, whether it is the current one or not.

        If signatures are checked, the folder's signature must cover everything in `skill`.

        Raises:
            SkillDamaged: The file is not the one that was admitted.
        """
        folder = self._home_of(skill)
        if self.trust.checks:
            path = folder / SKILL_FILE
            signed = self._parsed(file_bytes(path), str(path))
            if replace(signed, state=skill.state) != skill or (skill.state.listed and not signed.state.listed):
                raise SkillDamaged(f"{path} differs from the records of `{skill.name}`.")
        return self._source(folder, skill, tests=False)

    def extra_files(self, skill: Skill) -> dict[str, bytes]:
        """Return the extra files of exactly this version, by path relative to its program.

        Raises:
            SkillDamaged: A file is not the one that was admitted.
        """
        return self._extra(self._home_of(skill), skill) if skill.extra else {}

    def program(self, skill: Skill) -> SkillProgram:
        """Return the code and the extra files of exactly this version.

        Raises:
            SkillDamaged: A file is not the one that was admitted.
        """
        return SkillProgram(self.code(skill), self.extra_files(skill))

    def tests(self, skill: Skill) -> bytes:
        """Return the tests of exactly this version.

        Raises:
            SkillDamaged: The file is not the one that was admitted.
        """
        return self._source(self._home_of(skill), skill, tests=True)

    def files(self, skill: Skill) -> dict[str, bytes]:
        """Return the unchanged contents of all files of this version, by path relative to its folder.

        Raises:
            SkillDamaged: A file is not the one that was admitted.
        """
        program, tests = skill.files
        path, extra = self._home_of(skill) / SKILL_FILE, self.extra_files(skill)
        return {
            SKILL_FILE: file_bytes(path),
            program: self.code(skill),
            tests: self.tests(skill),
            **{skill.extra_paths[path]: data for path, data in extra.items()},
        }

    def history(self, name: str) -> list[Skill]:
        """Return all versions, oldest first, with the current one last.

        Raises:
            SkillMissing: There is no such skill.
            SkillDamaged: A version cannot be used.
        """
        current = self.read(name)
        return [*(self.earlier(name, number) for number in self.earlier_numbers(name)), current]

    def earlier(self, name: str, version: int) -> Skill:
        """Return a version before the current one.

        Raises:
            SkillDamaged: The version is damaged or does not exist.
        """
        return self._read(self.folder(name) / VERSIONS / str(version), name, version)

    def earlier_numbers(self, name: str) -> list[int]:
        """Return the numbers of the versions before the current one, ascending."""
        return version_numbers(self.folder(name) / VERSIONS)

    def signer(self, skill: Skill) -> str:
        """Return the public key that signed this version, even if it is not trusted; "" if the version is unsigned.

        Raises:
            SkillDamaged: The signature is invalid, or the folder cannot be used.
        """
        path = self._home_of(skill) / SKILL_FILE
        return signer(file_bytes(path), str(path))

    def _home_of(self, skill: Skill) -> Path:
        older = self.folder(skill.name) / VERSIONS / str(skill.version)
        return older if older.is_dir() else self.folder(skill.name)

    def _parse(self, data: bytes, where: str) -> Skill:
        skill = parse(data, where)
        self.trust.check(data, where)
        return skill

    def _read(self, folder: Path, name: str, version: int | None = None) -> Skill:
        """Read and check a folder.

        Args:
            version: The version that the folder must contain; None for any number above those of the earlier versions.
        """
        path = folder / SKILL_FILE
        skill = self._parse(file_bytes(path), str(path))
        if skill.name != name or not PATTERN.fullmatch(name):
            raise SkillDamaged(f"{path}: the skill in it is named {folder_name(skill.name)!r}, unlike its folder.")
        after = max(version_numbers(folder / VERSIONS), default=0)
        if skill.version != (version or skill.version) or skill.version <= after:
            place = str(version) if version else f"a version after {after}"
            raise SkillDamaged(f"{path}: the skill in it has version {skill.version} instead of {place}.")
        self._source(folder, skill, tests=False)
        self._source(folder, skill, tests=True)
        self._extra(folder, skill)
        return skill

    def _extra(self, folder: Path, skill: Skill) -> dict[str, bytes]:
        return {name: _admitted(folder / path, skill, skill.extra[name]) for name, path in skill.extra_paths.items()}

    def _source(self, folder: Path, skill: Skill, *, tests: bool) -> bytes:
        path = self._files(folder, skill.name, skill.kind)[2 if tests else 1]
        return _admitted(path, skill, skill.tests_sha256 if tests else skill.code_sha256)

    @staticmethod
    def _files(folder: Path, name: str, kind: SkillKind) -> tuple[Path, Path, Path]:
        program, tests = kind.files(name)
        return folder / SKILL_FILE, folder / program, folder / tests


def file_bytes(path: Path) -> bytes:
    """Return the content of a file of a skill.

    Raises:
        SkillDamaged: The file cannot be read, or it is larger than any file of a skill.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SkillDamaged(f"{path}: {error.strerror}.") from None
    if len(data) > _MOST_BYTES:
        raise SkillDamaged(f"{path}: the file has more than {_MOST_BYTES:,} bytes, the limit of a skill.")
    return data


def _admitted(path: Path, skill: Skill, sha256: str) -> bytes:
    data = file_bytes(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        text = f"{path} was changed after it was admitted as version {skill.version} (its SHA-256 differs)."
        raise SkillDamaged(text)
    return data


def version_numbers(folder: Path) -> list[int]:
    """Return the version numbers that are names in a folder, ascending."""
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if is_version_number(name))


def is_version_number(name: str) -> bool:
    """Return whether a folder's name is a version number. Folders with other names are ignored."""
    return name.isascii() and name.isdecimal() and len(name) <= _MOST_DIGITS

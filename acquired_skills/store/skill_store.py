"""`SkillStore`: stores skills as folders. The folders are authoritative; records and index are rebuilt from them.

    <root>/<skill-name>/SKILL.md, scripts/<skill_name>.py, tests/test_<skill_name>.py, versions/<n>/… (earlier ones)
                        scripts/… may have extra files
                        a composed skill has scripts/<skill_name>.json and tests/<skill_name>.json
    <root>/.deleted/<skill-name>-<n>/    deleted skills, complete, which can be restored
    <root>/.set-aside/<skill-name>-<k>/  folders that cannot be used, unchanged
    <root>/.staging/                     folders that are being written

Writers hold `lock`. Readers need no lock, because a folder changes atomically.
"""

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from acquired_skills.model.names import PATTERN, folder_name, skill_name
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.skill import Skill, SkillChanged, SkillDamaged, SkillKind, SkillMissing, SkillState
from acquired_skills.store.skill_file import parse, render
from acquired_skills.store.trust import Trust, signer
from engine.stores.atomic import publish_folder, remove_leftovers, replace_folder, staging_folder, write_atomic
from engine.stores.locks import FileLock

SKILL_FILE = "SKILL.md"
VERSIONS = "versions"
_MOST_BYTES = 4 << 20  # maximum size of one file in bytes; admitted files have at most a hundredth of this
_PARSED = 1024
_SETTLED_NS = 1_000_000_000
_MOST_DIGITS = 9  # maximum number of digits of a version number, so that the next one still fits into the records


class SkillStore:
    """Stores skills in folders below one root folder."""

    def __init__(self, root: Path, trust: Trust | None = None) -> None:
        """Create a store of the skills below a root folder.

        Args:
            trust: The trusted keys and the signing key; by default there are none, and nothing is signed.
        """
        self.root = root
        self.trust = trust or Trust()
        self.staging = root / ".staging"
        self.deleted = root / ".deleted"
        self.aside = root / ".set-aside"
        for folder in (root, self.staging, self.deleted, self.aside):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = FileLock(root / ".lock")
        self._parsed = lru_cache(maxsize=_PARSED)(self._parse)  # the files are small; each call of a skill reads one

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the store's lock, which excludes other processes, too. Remove what a crash left behind.

        Raises:
            StoreBusy: Another process holds the lock for too long.
        """
        with self._lock.exclusive():
            remove_leftovers(self.staging)
            yield

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
            signed = self._parsed(_bytes(path), str(path))
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
            SKILL_FILE: _bytes(path),
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
        return _numbers(self.folder(name) / VERSIONS)

    def signer(self, skill: Skill) -> str:
        """Return the public key that signed this version, even if it is not trusted; "" if the version is unsigned.

        Raises:
            SkillDamaged: The signature is invalid, or the folder cannot be used.
        """
        path = self._home_of(skill) / SKILL_FILE
        return signer(_bytes(path), str(path))

    def sign(self, name: str) -> Skill:
        """Sign the current version and every intact earlier one, replacing their signatures.

        The caller holds the lock.

        Raises:
            SkillMissing: There is no such skill.
            SkillDamaged: The current version cannot be used.
            SkillUnsignable: There is no key to sign with.
        """
        unchecked = SkillStore(self.root)  # accepts unsigned skills; `signer` refuses invalid signatures
        skill = unchecked.read(name)
        unchecked.signer(skill)
        for number in unchecked.earlier_numbers(name):
            with contextlib.suppress(SkillDamaged):
                older = unchecked.earlier(name, number)
                unchecked.signer(older)
                self._seal(self.folder(name) / VERSIONS / str(number), older)
        self._seal(self.folder(name), skill)
        return skill

    def next_version(self, name: str) -> int:
        """Return a higher version number than any version of the skill ever had.

        This ensures that the records of a deleted version never apply to a new one.
        """
        current = self.read(name).version if self.folder(name).is_dir() else 0
        return 1 + max([current, *self._tombstones(name)])

    def publish(self, skill: Skill, program: SkillProgram | bytes, tests: bytes, *, replaces: int) -> None:
        """Write the skill as the current version. The arguments and exceptions are those of `publishing`."""
        with self.publishing(skill, program, tests, replaces=replaces):
            pass

    @contextmanager
    def publishing(self, skill: Skill, program: SkillProgram | bytes, tests: bytes, *, replaces: int) -> Iterator[None]:
        """Write the skill as the current version, and undo that if the `with` body raises. The caller holds the lock.

        Args:
            program: The code of the skill, with its extra files if it has any.
            replaces: The number of the current version, which is kept below `versions`; 0 for a new skill.

        Raises:
            SkillChanged: `replaces` is no longer the current version.
        """
        final = self.folder(skill.name)
        current = self.read(skill.name).version if final.is_dir() else 0
        if current != replaces or skill.version != self.next_version(skill.name):
            raise SkillChanged(
                f"`{skill.name}` was changed by another process in the meantime (the current version is "
                f"{current or 'none'}, not {replaces or 'none'}). Look at it with manage_skills, and propose your "
                "version again if it is still needed."
            )
        if isinstance(program, bytes):
            program = SkillProgram(program)
        with staging_folder(self.staging) as staged:
            paths = self._files(staged, skill.name, skill.kind)
            files = dict(zip(paths, (self.trust.seal(render(skill)), program.code, tests), strict=True))
            files |= {staged / path: program.extra[name] for name, path in skill.extra_paths.items()}
            for path, data in files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            if current:
                self._keep_older(final, staged, current)
                replace_folder(staged, final)  # `staged` is now the previous version
            else:
                publish_folder(staged, final)
            try:
                yield
            except BaseException:
                if current:
                    replace_folder(staged, final)
                else:
                    final.rename(staged)
                raise

    @contextmanager
    def sealing(self, name: str, change: Callable[[], Skill]) -> Iterator[Skill]:
        """Call `change`, which may write only SKILL.md, and restore the file if the `with` body raises."""
        path = self.folder(name) / SKILL_FILE
        before = _bytes(path)
        skill = change()
        try:
            yield skill
        except BaseException:
            write_atomic(path, before)
            raise

    def set_state(self, name: str, state: SkillState) -> Skill:
        """Change the state of the current version. The caller holds the lock.

        Raises:
            SkillMissing: There is no such skill.
            SkillDamaged: Its folder cannot be used.
        """
        skill = replace(self.read(name), state=state)
        self._seal(self.folder(name), skill)
        return skill

    def delete(self, name: str) -> Path:
        """Move the folder to the deleted skills and return its new path. The caller holds the lock.

        Raises:
            SkillMissing: There is no such skill.
        """
        with self.deleting(name) as tombstone:
            return tombstone

    @contextmanager
    def deleting(self, name: str) -> Iterator[Path]:
        """Move the folder to the deleted skills, and undo that if the `with` body raises. The caller holds the lock.

        Raises:
            SkillMissing: There is no such skill.
        """
        skill = self.read(name)
        tombstone = self._move(name, self.deleted / f"{skill.folder}-{skill.version}")
        try:
            yield tombstone
        except BaseException:
            tombstone.rename(self.folder(name))
            raise

    def restore(self, name: str) -> Skill:
        """Restore the latest deleted folder. The exceptions are those of `restoring`."""
        with self.restoring(name) as skill:
            return skill

    @contextmanager
    def restoring(self, name: str) -> Iterator[Skill]:
        """Restore the latest deleted folder, and undo that if the `with` body raises. The caller holds the lock.

        Raises:
            SkillMissing: No skill of this name was deleted.
            SkillChanged: The name is in use again.
            SkillDamaged: The deleted folder was changed in the meantime. It stays where it is.
        """
        tombstones = self._tombstones(name)
        if not tombstones:
            raise SkillMissing(f"There is no deleted skill `{name}`.")
        if self.folder(name).exists():
            raise SkillChanged(f"There is a new skill `{name}`. Delete it first, then restore the earlier one.")
        tombstone = self.deleted / f"{folder_name(name)}-{tombstones[-1]}"
        skill = self._read(tombstone, name, tombstones[-1])
        publish_folder(tombstone, self.folder(name))
        try:
            yield skill
        except BaseException:
            self.folder(name).rename(tombstone)
            raise

    def set_aside(self, name: str) -> Path:
        """Move an unusable folder away, unchanged. The caller holds the lock."""
        taken = sum(1 for entry in self.aside.iterdir() if entry.name.startswith(f"{folder_name(name)}-"))
        return self._move(name, self.aside / f"{folder_name(name)}-{taken + 1}")

    def _home_of(self, skill: Skill) -> Path:
        older = self.folder(skill.name) / VERSIONS / str(skill.version)
        return older if older.is_dir() else self.folder(skill.name)

    def _move(self, name: str, target: Path) -> Path:
        publish_folder(self.folder(name), target)
        return target

    def _tombstones(self, name: str) -> list[int]:
        """Return the version numbers of the deleted skills of this name, ascending."""
        start = folder_name(name) + "-"
        ends = [entry.name.removeprefix(start) for entry in self.deleted.iterdir() if entry.name.startswith(start)]
        return sorted(int(end) for end in ends if _is_number(end))

    def _keep_older(self, final: Path, staged: Path, current: int) -> None:
        """Hard-link the earlier versions, which are immutable, into the new folder, and copy the current version."""
        if (final / VERSIONS).is_dir():
            shutil.copytree(final / VERSIONS, staged / VERSIONS, copy_function=_link)
        shutil.copytree(final, staged / VERSIONS / str(current), ignore=lambda at, _: _besides(final, at))

    def _seal(self, folder: Path, skill: Skill) -> None:
        write_atomic(folder / SKILL_FILE, self.trust.seal(render(skill)))

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
        skill = self._parse(_bytes(path), str(path))
        if skill.name != name or not PATTERN.fullmatch(name):
            raise SkillDamaged(f"{path}: the skill in it is named {folder_name(skill.name)!r}, unlike its folder.")
        after = max(_numbers(folder / VERSIONS), default=0)
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


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SkillDamaged(f"{path}: {error.strerror}.") from None
    if len(data) > _MOST_BYTES:
        raise SkillDamaged(f"{path}: the file has more than {_MOST_BYTES:,} bytes, the limit of a skill.")
    return data


def _admitted(path: Path, skill: Skill, sha256: str) -> bytes:
    data = _bytes(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        text = f"{path} was changed after it was admitted as version {skill.version} (its SHA-256 differs)."
        raise SkillDamaged(text)
    return data


def _numbers(folder: Path) -> list[int]:
    return sorted(int(entry.name) for entry in folder.iterdir() if _is_number(entry.name)) if folder.is_dir() else []


def _is_number(name: str) -> bool:
    """Return whether a folder's name is a version number. Folders with other names are ignored."""
    return name.isascii() and name.isdecimal() and len(name) <= _MOST_DIGITS


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


def _besides(final: Path, at: str) -> list[str]:
    return [VERSIONS] if Path(at) == final else []

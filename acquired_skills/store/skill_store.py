"""`SkillStore`: stores skills as folders. The folders are authoritative; records and index are rebuilt from them.

    <root>/<skill-name>/                 a skill (`acquired_skills.store.skill_folders`)
    <root>/.deleted/<skill-name>-<n>/    deleted skills, complete, which can be restored
    <root>/.set-aside/<skill-name>-<k>/  folders that cannot be used, unchanged
    <root>/.staging/                     folders that are being written

Writers hold `lock`. Readers need no lock, because a folder changes atomically.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from acquired_skills.model.names import folder_name
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.skill import Skill, SkillChanged, SkillDamaged, SkillMissing, SkillState
from acquired_skills.store.skill_file import render
from acquired_skills.store.skill_folders import SKILL_FILE, VERSIONS, SkillFolders, file_bytes, is_version_number
from acquired_skills.store.trust import Trust
from engine.stores.atomic import publish_folder, remove_leftovers, replace_folder, staging_folder, write_atomic
from engine.stores.locks import FileLock


class SkillStore(SkillFolders):
    """Stores skills in folders below one root folder."""

    def __init__(self, root: Path, trust: Trust | None = None) -> None:
        """Create a store of the skills below a root folder.

        Args:
            root: The root folder. It is created if it is missing.
            trust: The trusted keys and the signing key; by default there are none, and nothing is signed.
        """
        super().__init__(root, trust)
        self.staging = root / ".staging"
        self.deleted = root / ".deleted"
        self.aside = root / ".set-aside"
        for folder in (root, self.staging, self.deleted, self.aside):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = FileLock(root / ".lock")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the store's lock, which excludes other processes, too. Remove what a crash left behind.

        Raises:
            StoreBusy: Another process holds the lock for too long.
        """
        with self._lock.exclusive():
            remove_leftovers(self.staging)
            yield

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
        before = file_bytes(path)
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

    @contextmanager
    def withdrawing(self, name: str) -> Iterator[Skill | None]:
        """Remove the current version, and undo that if the `with` body raises. The caller holds the lock.

        The folder is then as it was before that version was published: it holds the version before it with all earlier
        ones or, for the first version, does not exist. Unlike a deleted skill, a withdrawn version cannot be restored,
        and its number is used again.

        Yields:
            The version before it, which is current now; None if there is none.

        Raises:
            SkillMissing: There is no such skill.
            SkillDamaged: Its folder, or the version before it, cannot be used.
        """
        final, current = self.folder(name), self.read(name)
        older = self.earlier_numbers(name)
        with staging_folder(self.staging) as staged:
            if not older:
                staged.rmdir()
                publish_folder(final, staged)
            else:
                latest = older[-1]
                self.earlier(name, latest)  # it must be usable
                shutil.copytree(final / VERSIONS / str(latest), staged, dirs_exist_ok=True)
                for number in older[:-1]:
                    kept = final / VERSIONS / str(number)
                    shutil.copytree(kept, staged / VERSIONS / str(number), copy_function=_link)
                replace_folder(staged, final)  # `staged` is now the withdrawn version
            try:
                yield self.read(name) if older else None
            except BaseException:
                if older:
                    replace_folder(staged, final)
                else:
                    staged.rename(self.folder(current.name))
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

    def _move(self, name: str, target: Path) -> Path:
        publish_folder(self.folder(name), target)
        return target

    def _tombstones(self, name: str) -> list[int]:
        """Return the version numbers of the deleted skills of this name, ascending."""
        start = folder_name(name) + "-"
        ends = [entry.name.removeprefix(start) for entry in self.deleted.iterdir() if entry.name.startswith(start)]
        return sorted(int(end) for end in ends if is_version_number(end))

    def _keep_older(self, final: Path, staged: Path, current: int) -> None:
        """Hard-link the earlier versions, which are immutable, into the new folder, and copy the current version."""
        if (final / VERSIONS).is_dir():
            shutil.copytree(final / VERSIONS, staged / VERSIONS, copy_function=_link)
        shutil.copytree(final, staged / VERSIONS / str(current), ignore=lambda at, _: _besides(final, at))

    def _seal(self, folder: Path, skill: Skill) -> None:
        write_atomic(folder / SKILL_FILE, self.trust.seal(render(skill)))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


def _besides(final: Path, at: str) -> list[str]:
    return [VERSIONS] if Path(at) == final else []

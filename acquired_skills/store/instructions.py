"""`Instructions`: stores Agent Skills without tests, which are not tools but text that an agent can read.

    <skills>/.instructions/<name>/            the folder as it was imported
    <skills>/.instructions/.deleted/<name>-<n>/  deleted instructions, complete, which can be restored

Instructions are stored apart from admitted skills, so that they cannot be mistaken for skills.
"""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from acquired_skills.model.names import folder_name
from acquired_skills.model.skill import SkillChanged, SkillDamaged, SkillMissing
from acquired_skills.store.archive import SKILL_FILE, Files, Unreadable, digest_of, read_skills
from acquired_skills.store.front_matter import read_front
from engine.stores.atomic import publish_folder, remove_leftovers, staging_folder
from engine.stores.locks import FileLock

MOST_SHOWN = 32 << 10  # maximum number of characters of the text to show


@dataclass(frozen=True, slots=True)
class Instruction:
    """One set of instructions, which was imported as one Agent Skill.

    Attributes:
        text: The text below the front matter, truncated for display.
        files: The names of the other files.
    """

    name: str
    description: str
    text: str
    files: tuple[str, ...]


class Instructions:
    """Stores and reads the instructions in a folder of skills."""

    def __init__(self, skills: Path) -> None:
        self.root = skills / ".instructions"
        self._deleted = self.root / ".deleted"
        self._staging = self.root / ".staging"

    def names(self) -> list[str]:
        """Return the names of all instructions, sorted, with hyphens as in the format."""
        if not self.root.is_dir():
            return []
        return sorted(each.name for each in self.root.iterdir() if each.is_dir() and not each.name.startswith("."))

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Return the modification time in nanoseconds and the size of each `SKILL.md`, by name, to detect changes."""
        found: dict[str, tuple[int, int]] = {}
        for name in self.names():
            with contextlib.suppress(OSError):  # the folder is incomplete, or being deleted
                status = (self.root / name / SKILL_FILE).stat()
                found[name] = status.st_mtime_ns, status.st_size
        return found

    def has(self, name: str) -> bool:
        return folder_name(name) in self.names()

    def all(self) -> list[Instruction]:
        """Return all instructions that can be read, sorted by name."""
        found: list[Instruction] = []
        for name in self.names():
            with contextlib.suppress(SkillDamaged, SkillMissing):
                found.append(self.read(name))
        return found

    def read(self, name: str) -> Instruction:
        """Return the instructions of this name.

        Raises:
            SkillMissing: There are no instructions of this name.
            SkillDamaged: The instructions cannot be read.
        """
        files = self.files(name)
        front, text = read_front(files[SKILL_FILE], f"{self.root / folder_name(name)}/{SKILL_FILE}")
        others = tuple(sorted(path for path in files if path != SKILL_FILE))
        return Instruction(front.name, front.description, text[:MOST_SHOWN], others)

    def files(self, name: str) -> Files:
        """Return all files of the instructions of this name.

        Raises:
            SkillMissing: There are no instructions of this name.
            SkillDamaged: The files cannot be read.
        """
        if not self.has(name):
            raise SkillMissing(f"There are no instructions `{name[:80]}`.")
        try:
            (files,) = read_skills(self.root / folder_name(name))
        except Unreadable as error:
            raise SkillDamaged(str(error)) from None
        if SKILL_FILE not in files:
            raise SkillDamaged(f"{self.root / folder_name(name)} has no {SKILL_FILE}.")
        return files

    def add(self, name: str, files: Files) -> bool:
        """Store the files of instructions atomically. Return False if identical files are already stored.

        Raises:
            SkillChanged: Different files are stored under this name.
        """
        with self._alone():
            if self.has(name):
                if digest_of(self.files(name)) == digest_of(files):
                    return False
                raise SkillChanged(
                    f"There are other instructions called {folder_name(name)}. Delete them first with `knackbox skills "
                    f"delete {folder_name(name)}`; they can be restored."
                )
            with staging_folder(self._staging) as staged:
                for path, data in files.items():
                    place = staged / path
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(data)
                publish_folder(staged, self.root / folder_name(name))
            return True

    def delete(self, name: str) -> None:
        """Move the instructions to the folder of deleted ones.

        Raises:
            SkillMissing: There are no instructions of this name.
        """
        with self._alone():
            if not self.has(name):
                raise SkillMissing(f"There are no instructions `{name[:80]}`.")
            number = 1 + max(self._tombstones(name), default=0)
            publish_folder(self.root / folder_name(name), self._deleted / f"{folder_name(name)}-{number}")

    def restore(self, name: str) -> None:
        """Restore the most recently deleted instructions of this name.

        Raises:
            SkillMissing: No instructions of this name were deleted.
            SkillChanged: The name is in use again.
        """
        with self._alone():
            numbers = self._tombstones(name)
            if not numbers:
                raise SkillMissing(f"There are no deleted instructions `{name[:80]}`.")
            if self.has(name):
                raise SkillChanged(f"There are other instructions called {folder_name(name)}. Delete them first.")
            publish_folder(self._deleted / f"{folder_name(name)}-{max(numbers)}", self.root / folder_name(name))

    def deleted(self, name: str) -> bool:
        return bool(self._tombstones(name))

    def _tombstones(self, name: str) -> list[int]:
        start = f"{folder_name(name)}-"
        found = self._deleted.glob("*") if self._deleted.is_dir() else ()
        ends = [each.name.removeprefix(start) for each in found if each.name.startswith(start)]
        return [int(end) for end in ends if end.isdecimal()]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        for folder in (self.root, self._deleted, self._staging):
            folder.mkdir(mode=0o700, exist_ok=True)
        with FileLock(self.root / ".lock").exclusive():
            remove_leftovers(self._staging)
            yield

"""`Snapshots`: the three registries as they were, signed, and brought back (REG-10)."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.contract.context import Clock
from engine.registry.file_registry import Corrupt, FileRegistry, RegistryDocument
from engine.registry.provenance import Provenance, ProvenanceEntry
from engine.registry.signing import SigningKey
from engine.registry.static import RegistryError
from engine.registry.updates import Subject
from engine.stores.atomic import remove_leftovers, write_atomic
from engine.stores.locks import FileLock

_ID = re.compile(r"^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{12}$")


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did. before: the snapshot of what was there, taken first."""

    snapshot: str
    before: str


class Snapshots:
    """Snapshots of one home, in `registries/snapshots`, and the log of where they come from. Every method blocks."""

    def __init__(self, folder: Path, files: Mapping[Subject, FileRegistry[Any]], clock: Clock) -> None:
        self._folder = folder / "snapshots"
        self._files = files
        self._clock = clock
        self._lock = FileLock(folder / ".snapshots.lock")
        self._log = Provenance(folder, SigningKey(folder / "signing_key"))

    def take(self, who: str) -> ProvenanceEntry:
        """Write down all three registries as they are. Raises RegistryError, StoreBusy, OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock.exclusive():
            return self._take(who)

    def entries(self) -> list[ProvenanceEntry]:
        """What the log says, oldest first, up to the first line that is not as it was written."""
        return self._log.read()[0]

    def verify(self) -> list[str]:
        """Everything that is not as it was written: lines of the log, snapshots; none where all is well."""
        if not self._log.exists and not self._folder.exists():
            return []
        with self._lock.shared():
            entries, problems = self._log.read()
            if not entries and not problems:
                problems = [
                    f"{self._log.path}: no snapshot is on it. The first was broken off, or the log was removed."
                ]
            digests = {each.snapshot: each.digest for each in entries}
            for snapshot, digest in digests.items():
                try:
                    self._load(snapshot, digest)
                except RegistryError as error:
                    problems.append(str(error))
            problems += [
                f"{path}: it is not on the log. A snapshot that was broken off leaves it so; remove it."
                for path in sorted(self._folder.glob("*.json"))
                if path.stem not in digests
            ]
        return problems

    def restore(self, snapshot: str, who: str) -> Restored:
        """Bring the registries back as they were; each file is replaced in one step, and its differences are told.

        What is there is taken as a snapshot first. Killed in between, some files are restored and some are not:
        restore again. Raises RegistryError for a snapshot that is not on the log or not as it was written.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock.exclusive():
            entries, problems = self._log.read()
            if problems:
                raise RegistryError(f"Nothing is restored by a log that is not whole: {problems[0]}")
            digest = next((each.digest for each in entries if each.snapshot == snapshot), None)
            if digest is None:
                known = ", ".join(each.snapshot for each in entries[-5:] if each.action == "snapshot") or "none"
                raise RegistryError(f"There is no snapshot {snapshot[:80]!r}. The latest: {known}.")
            documents = self._load(snapshot, digest)
            before = self._take(who)
            for subject, registry in self._files.items():
                registry.replace_all(documents[subject])
            self._log.append(self._now(), who, "restore", snapshot, digest)
        return Restored(snapshot, before.snapshot)

    def _take(self, who: str) -> ProvenanceEntry:
        parts = [f'"{subject}": {_encoded(registry)}' for subject, registry in self._files.items()]
        data = ("{\n" + ",\n".join(parts) + "\n}\n").encode("ascii")
        self._log.begin()
        remove_leftovers(self._folder)
        digest = hashlib.sha256(data).hexdigest()
        snapshot = f"{self._clock.now():%Y%m%dT%H%M%SZ}-{digest[:12]}"
        write_atomic(self._folder / f"{snapshot}.json", data)  # two of one second and one content are one file
        return self._log.append(self._now(), who, "snapshot", snapshot, digest)

    def _load(self, snapshot: str, digest: str) -> dict[Subject, RegistryDocument]:
        path = self._folder / f"{snapshot}.json"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RegistryError(f"{path}: the snapshot cannot be read ({error.strerror}).") from error
        if hashlib.sha256(data).hexdigest() != digest or not _ID.match(snapshot):
            raise RegistryError(f"{path}: the snapshot is not as it was written.")
        found = json.loads(data)
        try:
            return {subject: RegistryDocument(**found[subject]) for subject in self._files}
        except (KeyError, TypeError, Corrupt) as error:
            raise RegistryError(f"{path}: it is a snapshot of another version of Knackbox.") from error

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="seconds")


def _encoded(registry: FileRegistry[Any]) -> str:
    """A registry's file as JSON. Raises RegistryError when it cannot be read."""
    document = registry.document()
    return json.dumps({"items": dict(document.items), "disabled": dict(document.disabled)}, indent=2, sort_keys=True)

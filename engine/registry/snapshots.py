"""`Snapshots`: takes, verifies and restores signed copies of the registries of tools, prompts and agents (REG-10)."""

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
    """The result of a restore.

    Attributes:
        snapshot: The id of the restored snapshot.
        before: The id of a snapshot of the previous state, which was taken automatically.
    """

    snapshot: str
    before: str


class Snapshots:
    """The snapshots of one home, in `registries/snapshots`, and their provenance log. Every method blocks."""

    def __init__(self, folder: Path, files: Mapping[Subject, FileRegistry[Any]], clock: Clock) -> None:
        self._folder = folder / "snapshots"
        self._files = files
        self._clock = clock
        self._lock = FileLock(folder / ".snapshots.lock")
        self._log = Provenance(folder, SigningKey(folder / "signing_key"))

    def take(self, who: str) -> ProvenanceEntry:
        """Take a snapshot of all three registries.

        Args:
            who: The person who takes the snapshot, for the log.

        Raises:
            RegistryError: A registry's file or the log is damaged, or the key cannot be used.
            StoreBusy: Another process kept a file locked for too long.
            OSError: A file cannot be read or written.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock.exclusive():
            return self._take(who)

    def entries(self) -> list[ProvenanceEntry]:
        """Return the log's entries, oldest first, up to the first altered line."""
        return self._log.read()[0]

    def verify(self) -> list[str]:
        """Return a message for each altered line or snapshot; an empty list if there is none."""
        if not self._log.exists and not self._folder.exists():
            return []
        with self._lock.shared():
            entries, problems = self._log.read()
            if not entries and not problems:
                problems = [
                    f"{self._log.path}: it lists no snapshot. The first one was not completed, or the log was removed."
                ]
            digests = {each.snapshot: each.digest for each in entries}
            for snapshot, digest in digests.items():
                try:
                    self._load(snapshot, digest)
                except RegistryError as error:
                    problems.append(str(error))
            problems += [
                f"{path}: it is not in the log. An interrupted snapshot leaves such a file; remove it."
                for path in sorted(self._folder.glob("*.json"))
                if path.stem not in digests
            ]
        return problems

    def restore(self, snapshot: str, who: str) -> Restored:
        """Restore the registries. Each file is replaced atomically, and all changes are published.

        A snapshot of the current state is taken first. If the process is killed during the restore, only some of the
        files may have been restored. In that case, restore again.

        Raises:
            RegistryError: The snapshot is not in the log, or has been altered.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock.exclusive():
            entries, problems = self._log.read()
            if problems:
                raise RegistryError(f"Nothing is restored, because the log is damaged: {problems[0]}")
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
        # The name exists if the same content was saved in the same second; it is then replaced by an equal file.
        write_atomic(self._folder / f"{snapshot}.json", data)
        return self._log.append(self._now(), who, "snapshot", snapshot, digest)

    def _load(self, snapshot: str, digest: str) -> dict[Subject, RegistryDocument]:
        path = self._folder / f"{snapshot}.json"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RegistryError(f"{path}: the snapshot cannot be read ({error.strerror}).") from error
        if hashlib.sha256(data).hexdigest() != digest or not _ID.match(snapshot):
            raise RegistryError(f"{path}: the snapshot has been altered.")
        found = json.loads(data)
        try:
            return {subject: RegistryDocument(**found[subject]) for subject in self._files}
        except (KeyError, TypeError, Corrupt) as error:
            raise RegistryError(f"{path}: the snapshot is from another version of Knackbox.") from error

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="seconds")


def _encoded(registry: FileRegistry[Any]) -> str:
    """Return a registry's file as JSON.

    Raises:
        RegistryError: The file cannot be parsed.
    """
    document = registry.document()
    return json.dumps({"items": dict(document.items), "disabled": dict(document.disabled)}, indent=2, sort_keys=True)

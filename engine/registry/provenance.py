"""`Provenance`: a signed, hash-chained log of who took or restored which snapshot, and when (REG-10).

Each line contains the hash of the previous line, so changed, removed or moved lines are detected. A signed file, the
head, contains the number of lines, so lines missing at the end are detected. The head is created together with the key,
before the first line, so if it is missing, somebody has removed it. Only the holder of the key can forge another
history. Replacing both the log and the head with older copies is not detected. If that matters, keep snapshots in
another place as well.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from engine.registry.signing import Sign, SigningKey
from engine.registry.static import RegistryError
from engine.stores.atomic import write_atomic

Action = Literal["snapshot", "restore"]

_START = "0" * 64


@dataclass(frozen=True, slots=True)
class ProvenanceEntry:
    """A line of the log: one snapshot that was taken or restored.

    Attributes:
        n: The number of the line, starting at 1.
        ts: UTC, ISO 8601.
        digest: The digest of the snapshot's file.
        previous: The hash of the previous line.
    """

    n: int
    ts: str
    who: str
    action: str
    snapshot: str
    digest: str
    previous: str


class Provenance:
    """The log of one home. Callers of `append` must hold the lock of the snapshots. Every method blocks."""

    def __init__(self, folder: Path, key: SigningKey) -> None:
        self.path = folder / "provenance.jsonl"
        self._head = folder / "provenance.head"
        self._key = key

    @property
    def exists(self) -> bool:
        """Whether any part of a log exists: key, head or lines."""
        return self._key.exists or self._head.exists() or self.path.exists()

    def begin(self) -> None:
        """Create the key and the head of an empty log.

        Raises:
            RegistryError: The log has lines already, but its key is missing.
        """
        if self._key.exists:
            return
        _, problems = self.read()
        if problems:
            raise RegistryError(f"Nothing is added, because the log is damaged: {problems[0]}")
        self._key.make(lambda sign: self._write_head(0, _START, sign))

    def append(self, ts: str, who: str, action: Action, snapshot: str, digest: str) -> ProvenanceEntry:
        """Append one line. It is on disk when this method returns.

        Raises:
            RegistryError: The log is damaged.
        """
        entries, problems = self.read()
        if problems:
            raise RegistryError(f"Nothing is added, because the log is damaged: {problems[0]}")
        lines = self._lines()
        previous = _hash(lines[-1]) if lines else _START
        entry = ProvenanceEntry(len(entries) + 1, ts, who, action, snapshot, digest, previous)
        line = _canonical({**asdict(entry), "signature": self._key.sign(_canonical(asdict(entry)))})
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            whole = sum(len(each) + 1 for each in lines)
            os.ftruncate(descriptor, whole)  # drops the partial line of a writer that was killed
            os.pwrite(descriptor, line + b"\n", whole)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._write_head(entry.n, _hash(line), self._key.sign)
        return entry

    def read(self) -> tuple[list[ProvenanceEntry], list[str]]:
        """Return the entries up to the first altered one, and a description of each problem."""
        entries: list[ProvenanceEntry] = []
        previous = _START
        lines = self._lines()
        if not self._key.exists:  # the first writer may have been killed after writing only the head
            return [], [f"{self.path}: the key of this log is missing. Restore it."] if lines else []
        for n, line in enumerate(lines, 1):
            entry = self._verified(line)
            if entry is None or entry.n != n or entry.previous != previous:
                return entries, [f"{self.path}: line {n} has been altered."]
            entries.append(entry)
            previous = _hash(line)
        return entries, self._head_problems(lines)

    def _lines(self) -> list[bytes]:
        """Return the complete lines of the log. A line that a killed writer did not finish is ignored."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        return data.split(b"\n")[:-1]

    def _verified(self, line: bytes) -> ProvenanceEntry | None:
        try:
            found = json.loads(line)
            signature = found.pop("signature")
            entry = ProvenanceEntry(**found)
            same = _canonical({**asdict(entry), "signature": signature}) == line
            genuine = same and self._key.verifies(signature, _canonical(asdict(entry)))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            return None
        return entry if genuine else None

    def _head_problems(self, lines: Sequence[bytes]) -> list[str]:
        """Check the head. If a writer was killed, the head may be one line behind, never more."""
        try:
            head = json.loads(self._head.read_bytes())
            n, at = int(head["n"]), str(head["hash"])
            genuine = self._key.verifies(str(head["signature"]), _canonical({"n": n, "hash": at}))
        except FileNotFoundError:
            return [f"{self._head}: it is missing. Restore it, or move log, snapshots and key elsewhere to start over."]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            genuine = False
        if not genuine:
            return [f"{self._head}: it has been altered."]
        if not n <= len(lines) <= n + 1:
            return [f"{self.path}: it has {len(lines)} lines instead of {n}."]
        found = _hash(lines[n - 1]) if n else _START
        return [] if found == at else [f"{self.path}: line {n} has been replaced."]

    def _write_head(self, n: int, at: str, sign: Sign) -> None:
        said = {"n": n, "hash": at}
        write_atomic(self._head, _canonical({**said, "signature": sign(_canonical(said))}))


def _canonical(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()

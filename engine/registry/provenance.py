"""`Provenance`: who took or restored which snapshot, when: a log whose lines are chained by hash and signed (REG-10).

Each line holds the hash of the line before, so none can be changed, left out or put elsewhere; a signed head holds the
number of lines, so none can be cut off the end. The head is there before the first line and as soon as the key is, so
one that is missing was taken away. Only who has the key could write another history, and who kept an old head and an
old log could show those: keep snapshots elsewhere, too, where that matters.
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
    """One line. n: from 1. ts: UTC, ISO 8601. digest: of the snapshot's file. previous: hash of the line before."""

    n: int
    ts: str
    who: str
    action: str
    snapshot: str
    digest: str
    previous: str


class Provenance:
    """The log of one home. Whoever calls `append` holds the lock of the snapshots. Every method blocks."""

    def __init__(self, folder: Path, key: SigningKey) -> None:
        self.path = folder / "provenance.jsonl"
        self._head = folder / "provenance.head"
        self._key = key

    @property
    def exists(self) -> bool:
        """Whether anything of a log is there: its key, its head or a line."""
        return self._key.exists or self._head.exists() or self.path.exists()

    def begin(self) -> None:
        """Make the key and the head of an empty log. Raises RegistryError for lines whose key is missing."""
        if self._key.exists:
            return
        _, problems = self.read()
        if problems:
            raise RegistryError(f"Nothing is added to a log that is not whole: {problems[0]}")
        self._key.make(lambda sign: self._write_head(0, _START, sign))

    def append(self, ts: str, who: str, action: Action, snapshot: str, digest: str) -> ProvenanceEntry:
        """Put one line at the end, on the disk when this returns. Raises RegistryError when the log is not whole."""
        entries, problems = self.read()
        if problems:
            raise RegistryError(f"Nothing is added to a log that is not whole: {problems[0]}")
        lines = self._lines()
        previous = _hash(lines[-1]) if lines else _START
        entry = ProvenanceEntry(len(entries) + 1, ts, who, action, snapshot, digest, previous)
        line = _canonical({**asdict(entry), "signature": self._key.sign(_canonical(asdict(entry)))})
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            whole = sum(len(each) + 1 for each in lines)
            os.ftruncate(descriptor, whole)  # what a killed writer left of a line it never finished
            os.pwrite(descriptor, line + b"\n", whole)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._write_head(entry.n, _hash(line), self._key.sign)
        return entry

    def read(self) -> tuple[list[ProvenanceEntry], list[str]]:
        """The entries up to the first that is not as it was written, and everything that is wrong."""
        entries: list[ProvenanceEntry] = []
        previous = _START
        lines = self._lines()
        if not self._key.exists:  # nor is anything known of a head: a first writer that was killed leaves one
            return [], [f"{self.path}: the key of this log is missing. Bring it back."] if lines else []
        for n, line in enumerate(lines, 1):
            entry = self._verified(line)
            if entry is None or entry.n != n or entry.previous != previous:
                return entries, [f"{self.path}: line {n} is not as it was written."]
            entries.append(entry)
            previous = _hash(line)
        return entries, self._head_problems(lines)

    def _lines(self) -> list[bytes]:
        """Finished lines."""
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
        """A writer that was killed may leave the head one line behind, and never further."""
        try:
            head = json.loads(self._head.read_bytes())
            n, at = int(head["n"]), str(head["hash"])
            genuine = self._key.verifies(str(head["signature"]), _canonical({"n": n, "hash": at}))
        except FileNotFoundError:
            return [f"{self._head}: it is missing. Bring it back, or move log, snapshots and key away to begin anew."]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            genuine = False
        if not genuine:
            return [f"{self._head}: it is not as it was written."]
        if not n <= len(lines) <= n + 1:
            return [f"{self.path}: it has {len(lines)} lines, and had {n}."]
        found = _hash(lines[n - 1]) if n else _START
        return [] if found == at else [f"{self.path}: line {n} is not the one that was written."]

    def _write_head(self, n: int, at: str, sign: Sign) -> None:
        said = {"n": n, "hash": at}
        write_atomic(self._head, _canonical({**said, "signature": sign(_canonical(said))}))


def _canonical(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()

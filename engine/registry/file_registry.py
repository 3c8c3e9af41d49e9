"""`FileRegistry`: items of one kind in one JSON file, shared by all processes on a home (REG-5).

The file is the source of truth: ``{"items": {id: envelope}, "disabled": {id: when}}``. A writer holds a lock that all
processes respect, replaces the file atomically, and publishes the changes before it releases the lock. Readers need no
lock. A damaged file (one that is not JSON of this form) is renamed to a name that contains the time. An invalid entry
is skipped and stays in the file. It does not affect the other entries.
"""

import logging
import math
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from engine.contract.canonical import digest
from engine.contract.context import Clock
from engine.contract.strict_json import JsonError, read_json, write_json
from engine.registry.static import RegistryError
from engine.registry.updates import Happening, RegistryUpdates, Subject
from engine.stores.atomic import remove_leftovers, write_atomic
from engine.stores.locks import FileLock

T = TypeVar("T")

KEEPER = "files"  # the name under which these registries publish their changes to RegistryUpdates
LOOK_S = 0.2  # interval of checks for changes by other processes; a check takes microseconds
MOST_BYTES = 16 << 20
_ASIDE = ".corrupt-"
_OFF = "off:"
_log = logging.getLogger("knackbox.registry")


@dataclass(frozen=True, slots=True)
class RegistryDocument:
    """The content of a registry's file.

    Attributes:
        items: The envelopes, by id.
        disabled: The time at which each disabled id was disabled. It may contain ids of tools that are not in the file.
    """

    items: Mapping[str, Any] = field(default_factory=dict)
    disabled: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> bytes:
        """Return the document as JSON that `parse` can read.

        Raises:
            JsonError: The document has no JSON form.
        """
        return write_json({"items": dict(self.items), "disabled": dict(self.disabled)}).encode("utf-8")

    @property
    def states(self) -> dict[str, str]:
        """The state of every item and every disabled id. `RegistryUpdates` compares it with the published states."""
        states = {name: f"on:{digest(envelope)}" for name, envelope in self.items.items()}
        return states | {name: _OFF + states.get(name, "on:").removeprefix("on:") for name in self.disabled}


@dataclass(frozen=True, slots=True)
class LoadProblem:
    """An entry that could not be loaded, and why. `item_id` is "" if the problem concerns the whole file."""

    file: Path
    item_id: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.item_id + ': ' if self.item_id else ''}{self.reason}"


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """The content of a registry at one moment: the valid items sorted by id, the disabled ids, and the problems."""

    items: Mapping[str, T]
    disabled: Mapping[str, str]
    problems: tuple[LoadProblem, ...]


class Corrupt(RegistryError):
    """The file of a registry cannot be parsed."""


class FileRegistry(Generic[T]):
    """A registry of items of one kind. All methods except `due` block. Thread-safe.

    Attributes:
        current: The view that was read last.
    """

    def __init__(
        self,
        subject: Subject,
        folder: Path,
        read: Callable[[Mapping[str, Any]], T],
        updates: RegistryUpdates,
        clock: Clock,
        *,
        claims: Callable[[T], Iterable[str]] = lambda item: (),  # noqa: ARG005 -- by default, items claim no names
        lost_are_disabled: bool = False,
    ) -> None:
        """Create the registry.

        Args:
            subject: The kind of the items.
            folder: The folder with the file.
            read: Function that converts an envelope to an item. It raises RegistryError if the envelope is invalid.
            updates: Publishes the changes.
            clock: The source of time.
            claims: Function that returns the names that an item claims, which no other item may have.
            lost_are_disabled: Whether the items that are lost when the file is damaged are disabled. This is meant for
                items that contain restrictions, because the restrictions are lost with them.
        """
        self.subject: Subject = subject
        self.path = folder / f"{subject}.json"
        self._read_item = read
        self._claims = claims
        self._lost_are_disabled = lost_are_disabled
        self._updates = updates
        self._clock = clock
        self._lock = FileLock(folder / f".{subject}.lock")
        self._loading = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._look_at = -math.inf
        self.current: View[T] | None = None

    def due(self, view: View[T] | None, *, at_once: bool = False) -> bool:
        """Return whether `view` is outdated. A check takes microseconds.

        The file is checked if this process has changed it, or if the last check was at least `LOOK_S` seconds ago.

        Args:
            view: The view to compare with the file; None counts as outdated.
            at_once: Whether to check the file even if the last check was more recent.
        """
        if view is not self.current:
            return True
        now = self._clock.monotonic()
        if now < self._look_at and not at_once:
            return False
        self._look_at = now + LOOK_S
        return self._stamp != _stamp_of(self.path)

    def view(self) -> View[T]:
        """Return the current content."""
        with self._loading:
            if self.current is None or self._stamp != _stamp_of(self.path):
                try:
                    document, self._stamp = _load(self.path)
                except Corrupt:
                    with self._lock.exclusive():
                        self._load_or_set_aside()
                    document, self._stamp = _load(self.path)
                except OSError as error:
                    problem = LoadProblem(
                        self.path, "", f"it cannot be read ({error.strerror}). Check its permissions."
                    )
                    known = self.current or View({}, {}, ())
                    self.current = replace(known, problems=(problem,))  # disabled items stay disabled
                    return self.current
                self.current = self._understood(document)
            return self.current

    def document(self) -> RegistryDocument:
        """Return the file's content, including invalid entries.

        Raises:
            RegistryError: The file cannot be parsed.
            StoreBusy: Another process kept the file locked for too long.
            OSError: The file cannot be read.
        """
        with self._lock.shared():
            try:
                return _load(self.path)[0]
            except Corrupt as error:
                raise RegistryError(f"{self.path}: {error}. `knackbox registry list` moves this file aside.") from error

    def put(self, item_id: str, envelope: Mapping[str, Any]) -> T:
        """Register or replace an item.

        Raises:
            RegistryError: The item is invalid, or its name is taken.
        """
        return self.put_all({item_id: envelope})[item_id]

    def put_all(self, envelopes: Mapping[str, Mapping[str, Any]]) -> dict[str, T]:
        """Register or replace items, given by id. If one of them cannot be registered, none is.

        Raises:
            RegistryError: An item is invalid, or its name is taken.
        """
        items = {item_id: self._read_item(envelope) for item_id, envelope in envelopes.items()}
        with self._changing() as document:
            known = {**self._understood(document).items, **items}
            for item_id, item in items.items():
                for other_id, other in known.items():
                    taken = sorted(set(self._claims(item)) & set(self._claims(other)))
                    if other_id != item_id and taken:
                        raise RegistryError(f"{item_id}: the name {taken[0]!r} is used by {other_id}. Choose another.")
            added = {item_id: dict(envelope) for item_id, envelope in envelopes.items()}
            self._save(RegistryDocument({**document.items, **added}, document.disabled), items)
        return items

    def remove(self, item_id: str) -> bool:
        """Delete an item and its disabled state. Return False if there is no such item."""
        with self._changing() as document:
            if item_id not in document.items:
                return False
            items = {name: envelope for name, envelope in document.items.items() if name != item_id}
            self._save(RegistryDocument(items, {name: at for name, at in document.disabled.items() if name != item_id}))
            return True

    def set_disabled(self, item_id: str, disabled: bool) -> bool:
        """Disable or enable an id, which need not be in the file. Return False if nothing changed."""
        with self._changing() as document:
            if (item_id in document.disabled) == disabled:
                return False
            others = {known: at for known, at in document.disabled.items() if known != item_id}
            now = {item_id: self._clock.now().isoformat(timespec="seconds")} if disabled else {}
            self._save(RegistryDocument(document.items, others | now))
            return True

    def replace_all(self, document: RegistryDocument) -> RegistryDocument:
        """Replace the content of the file, publish all differences, and return the previous content."""
        with self._changing() as before:
            self._save(document)
            return before

    def reconcile(self) -> None:
        """Clean up at start.

        Leftovers of killed writers are removed, a damaged file is set aside, and changes that a killed writer did not
        publish are published.
        """
        with self._changing() as document:
            remove_leftovers(self.path.parent)
            self._publish(document, ())

    @contextmanager
    def _changing(self) -> Iterator[RegistryDocument]:
        """Hold the lock of the file, and yield its content."""
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        with self._lock.exclusive():
            yield self._load_or_set_aside()

    def _save(self, document: RegistryDocument, always: Iterable[str] = ()) -> None:
        try:
            data = document.as_json()
        except JsonError as error:
            raise RegistryError(f"{self.path}: it cannot be written ({error}).") from error
        if len(data) > MOST_BYTES:
            raise RegistryError(f"{self.path}: it would exceed {MOST_BYTES >> 20} MiB. Delete unused entries.")
        write_atomic(self.path, data)
        self._look_at = -math.inf
        self._publish(document, frozenset(always))

    def _publish(self, document: RegistryDocument, always: Iterable[str]) -> None:
        def gone(state: str) -> Happening:
            return "upsert" if state == _OFF else "delete"  # `_OFF` marks a disabled tool of another source

        off = document.disabled.keys()
        chosen = frozenset(always)
        self._updates.reconcile(KEEPER, self.subject, document.states, disabled=off, always=chosen, gone=gone)

    def _load_or_set_aside(self) -> RegistryDocument:
        """Load the file. If it is damaged, set it aside, and take the disabled ids from the last published states."""
        try:
            return _load(self.path)[0]
        except Corrupt as error:
            now = self._clock.now()
            published = self._updates.published_states(KEEPER, self.subject)
            off = [name for name, state in published.items() if self._lost_are_disabled or state.startswith(_OFF)]
            document = RegistryDocument({}, dict.fromkeys(off, now.isoformat(timespec="seconds")))
            aside = self.path.with_name(f"{self.path.name}{_ASIDE}{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}")
            try:
                os.link(self.path, aside)
            except OSError:  # a file system without hard links
                self.path.rename(aside)
            # If the copy is a hard link, the file never disappears, so readers never see a disabled item as enabled.
            write_atomic(self.path, document.as_json())
            _log.warning("%s: %s. The damaged file was moved to %s; repair or remove it.", self.path, error, aside.name)
            return document

    def _understood(self, document: RegistryDocument) -> View[T]:
        items: dict[str, T] = {}
        problems = [
            LoadProblem(self.path, "", f"a damaged file was moved to {each.name}. Repair or remove it.")
            for each in set_aside(self.path)
        ]
        claimed: dict[str, str] = {}
        for item_id, envelope in sorted(document.items.items()):
            try:
                item = self._fitting(item_id, envelope)
            except RegistryError as error:
                problems.append(LoadProblem(self.path, item_id, f"skipped: {error}"))
                continue
            owner = next((claimed[name] for name in self._claims(item) if name in claimed), None)
            if owner is not None:
                problems.append(LoadProblem(self.path, item_id, f"skipped: one of its names is used by {owner}"))
                continue
            claimed |= dict.fromkeys(self._claims(item), item_id)
            items[item_id] = item
        return View(items, dict(document.disabled), tuple(problems))

    def _fitting(self, item_id: str, envelope: Any) -> T:
        if not isinstance(envelope, dict):
            raise RegistryError("it is not a JSON object")
        if envelope.get("spec_id") != item_id:
            raise RegistryError(f"its spec_id {str(envelope.get('spec_id'))[:80]!r} differs from its key in the file")
        return self._read_item(envelope)


def parse(data: bytes) -> RegistryDocument:
    """Parse a registry's file.

    Raises:
        Corrupt: The data does not have the expected form.
    """
    if len(data) > MOST_BYTES:
        raise Corrupt(f"it is larger than {MOST_BYTES >> 20} MiB")
    try:
        found = read_json(data)
    except JsonError as error:
        raise Corrupt(f"it is not JSON: {error}") from error
    items, disabled = (found.get("items"), found.get("disabled", {})) if isinstance(found, dict) else (None, None)
    if not isinstance(items, dict) or not isinstance(disabled, dict):
        raise Corrupt('it is not of the form {"items": {…}, "disabled": {…}}')
    if not all(isinstance(when, str) for when in disabled.values()):
        raise Corrupt("a value of `disabled` is not a time")
    return RegistryDocument(items, disabled)


def set_aside(path: Path) -> list[Path]:
    """Return the damaged files that were set aside, oldest first."""
    return sorted(path.parent.glob(f"{path.name}{_ASIDE}*"))


def _load(path: Path) -> tuple[RegistryDocument, tuple[int, ...] | None]:
    """Return the file's content and stamp.

    Raises:
        Corrupt: The file cannot be parsed.
        OSError: The file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            stamp = _stamp(os.fstat(stream.fileno()))
            return parse(stream.read(MOST_BYTES + 1)), stamp
    except FileNotFoundError:
        return RegistryDocument(), None


def _stamp_of(path: Path) -> tuple[int, ...] | None:
    try:
        return _stamp(path.stat())
    except OSError:
        return None


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns

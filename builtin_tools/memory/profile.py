"""`Profile`: stores facts about users by key, with their history. The prompt of each turn contains them (MEM-8)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from builtin_tools.memory.entries import Entry, EntryKind, EntrySource, NewEntry, Statement
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import EntrySelection, MemoryView

PROFILE = "personal:profile"  # the space of the profile
MOST_KEYS = 200
MOST_KEY = 60  # characters
MOST_VALUE = 500
_SUBJECT = "user"
_KEY = re.compile(r"[a-z][a-z0-9_.]*")


class ProfileError(ValueError):
    """A change to the profile was refused. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ProfileItem:
    """One fact about the user.

    Attributes:
        since: When it was stored, in seconds since the epoch.
        until: When it was replaced or removed; None if it is current.
    """

    id: str
    key: str
    value: str
    since: float
    until: float | None = None


class Profile:
    """The profiles of all users. Every method blocks."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def set(self, owner: str, key: str, value: str, source: EntrySource) -> tuple[ProfileItem, ProfileItem | None]:
        """Store a fact, replacing the current fact with this key.

        Returns:
            The new item, and the item that it replaced, if any. If the value is the same, nothing changes and both
            returned items are equal.

        Raises:
            ProfileError: The key or the value is invalid, or there are too many keys.
        """
        key, value = checked_key(key), " ".join(value.split())
        if not value or len(value) > MOST_VALUE:
            raise ProfileError(f"The value must have 1 to {MOST_VALUE} characters, but has {len(value)}. Shorten it.")
        with self._store.changing() as memory:
            items = _entries(memory, owner)
            old = next((entry for entry in items if _item(entry).key == key), None)
            if old is not None and _item(old).value == value:
                return _item(old), _item(old)
            if old is None and len(items) >= MOST_KEYS:
                raise ProfileError(f"The profile has {MOST_KEYS} keys already. Remove some, or store this as a fact.")
            entry = memory.insert(
                NewEntry(
                    owner=owner,
                    space=PROFILE,
                    kind=EntryKind.PROFILE,
                    text=f"{key}: {value}",
                    source=source,
                    statement=Statement(_SUBJECT, key, value),
                )
            )
            if old is not None:
                memory.close(old, memory.now, entry.id)
            return _item(entry), None if old is None else _item(old)

    def remove(self, owner: str, key: str) -> ProfileItem | None:
        """Remove a fact from the current profile and return it; None if the key is unknown. Its history is kept."""
        key = checked_key(key)
        with self._store.changing() as memory:
            old = next((entry for entry in _entries(memory, owner) if _item(entry).key == key), None)
            if old is None:
                return None
            memory.close(old, memory.now)
            return _item(old)

    def items(self, owner: str) -> list[ProfileItem]:
        """Return the current facts, sorted by key."""
        with self._store.reading() as memory:
            return sorted(map(_item, _entries(memory, owner)), key=lambda item: item.key)

    def history(self, owner: str, key: str) -> list[ProfileItem]:
        """Return all facts that were ever stored with a key, oldest first."""
        with self._store.reading() as memory:
            found = memory.about(owner, PROFILE, _SUBJECT, checked_key(key))
        return [_item(entry) for entry in found if entry.kind is EntryKind.PROFILE]


def checked_key(key: str) -> str:
    """Normalize a key: lower case, with underscores.

    Raises:
        ProfileError: The key is invalid.
    """
    usual = re.sub(r"[\s-]+", "_", key.strip().lower())
    if not _KEY.fullmatch(usual) or len(usual) > MOST_KEY:
        raise ProfileError(
            f"{key[:80]!r} is not a key. Use 1 to {MOST_KEY} letters, digits, `_` and `.`, such as home_city."
        )
    return usual


def shown(items: Sequence[ProfileItem], most_characters: int) -> str:
    """Return the facts as lines, sorted by key. If not all fit, only the most recently stored facts are included."""
    chosen: list[ProfileItem] = []
    left = most_characters
    for item in sorted(items, key=lambda each: (-each.since, each.key)):
        left -= len(_line(item)) + 1
        if left < 0:
            break
        chosen.append(item)
    return "\n".join(_line(item) for item in sorted(chosen, key=lambda each: each.key))


def _line(item: ProfileItem) -> str:
    return f"- {item.key}: {item.value}"


def _entries(memory: MemoryView, owner: str) -> list[Entry]:
    chosen = EntrySelection(kinds=[EntryKind.PROFILE], spaces=[PROFILE])
    return [entry for entry in memory.entries([owner], chosen) if entry.holds_to is None]


def _item(entry: Entry) -> ProfileItem:
    said = entry.statement
    assert said is not None  # noqa: S101 -- `set`, a dream and an import store no item without a statement
    return ProfileItem(entry.id, said.attribute, said.value, entry.learned, entry.holds_to)

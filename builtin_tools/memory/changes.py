"""`MemoryChange`: changes the memory in one transaction. Either all of its changes are stored or none."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, insert, or_, select, update

from builtin_tools.memory.entries import Entry, KnownDocument, NewEntry
from builtin_tools.memory.tables import DOCUMENTS, ENTRIES, PAIRS, REMOVALS, document_row, json_text, row_of
from builtin_tools.memory.view import AT_ONCE, MemoryView
from sandbox.secrets.redactor import Redactor


class MemoryChange(MemoryView):
    """Reads and writes within an open transaction. Every method blocks.

    All changes of a transaction get the same generation number, which tells search indexes what is new.

    Attributes:
        generation: The generation number of this transaction.
        now: The time of this transaction, in seconds since the epoch.
    """

    def __init__(
        self,
        connection: Connection,
        generation: int,
        now: float,
        new_id: Callable[[], str],
        redactor: Redactor | None = None,
    ) -> None:
        super().__init__(connection)
        self.generation = generation
        self.now = now
        self._new_id = new_id
        self._redactor = redactor

    def insert(self, new: NewEntry) -> Entry:
        """Store a new entry."""
        return self.insert_all([new])[0]

    def insert_all(self, new: Sequence[NewEntry]) -> list[Entry]:
        """Store new entries."""
        entries = [self._redacted(self._entry(each)) for each in new]
        if entries:
            self.connection.execute(insert(ENTRIES), [row_of(entry) for entry in entries])
        return entries

    def put(self, entry: Entry) -> Entry:
        """Store an entry with its id, replacing any entry with that id. Used to undo changes and for imports."""
        stored = self._redacted(replace(entry, generation=self.generation))
        self.connection.execute(delete(REMOVALS).where(REMOVALS.c.id == entry.id))
        self.connection.execute(delete(ENTRIES).where(ENTRIES.c.id == entry.id))
        self.connection.execute(insert(ENTRIES), [row_of(stored)])
        return stored

    def close(self, entry: Entry, at: float, successor: str = "") -> None:
        """Mark an entry as no longer true from time `at` on, and as replaced by `successor`. Its text is kept."""
        values: dict[str, Any] = {"holds_to": at, "generation": self.generation}
        if successor:
            values["successor"] = successor
        self.connection.execute(update(ENTRIES).where(ENTRIES.c.id == entry.id).values(**values))

    def set_data(self, entry: Entry, data: Mapping[str, Any]) -> None:
        """Replace the `data` of an entry. Its generation stays the same, because `data` is not indexed."""
        shown = data if self._redactor is None else self._redactor.masked(data)
        self.connection.execute(update(ENTRIES).where(ENTRIES.c.id == entry.id).values(data=json_text(shown)))

    def remove(self, entries: Collection[Entry]) -> None:
        """Delete entries. To delete all copies of entries, too, use `Erasure`.

        Entries that the deleted ones replaced stay marked as no longer true.
        """
        every = list(entries)
        for start in range(0, len(every), AT_ONCE):
            some = every[start : start + AT_ONCE]
            ids = [entry.id for entry in some]
            self.connection.execute(delete(ENTRIES).where(ENTRIES.c.id.in_(ids)))
            self.connection.execute(delete(PAIRS).where(or_(PAIRS.c.older.in_(ids), PAIRS.c.newer.in_(ids))))
            self.connection.execute(update(ENTRIES).where(ENTRIES.c.successor.in_(ids)).values(successor=""))
            rows = [{"id": e.id, "owner": e.owner, "generation": self.generation, "pending": True} for e in some]
            self.connection.execute(insert(REMOVALS), rows)

    def add_document(self, document: KnownDocument, passages: Sequence[NewEntry]) -> list[Entry]:
        """Store a document with its passages, replacing any document with the same id."""
        self.remove_document(document.id)
        if self._redactor is not None:
            shown = self._redactor.masked({"uri": document.uri, "title": document.title, "text": document.text})
            document = replace(document, data=self._redactor.masked(document.data), **shown)
        self.connection.execute(insert(DOCUMENTS), [document_row(document)])
        return self.insert_all([replace(each, document=document.id) for each in passages])

    def remove_document(self, document_id: str) -> list[Entry]:
        """Delete a document and its passages, and return the passages."""
        passages = self.passages(document_id)
        self.remove(passages)
        self.connection.execute(delete(DOCUMENTS).where(DOCUMENTS.c.id == document_id))
        return passages

    def open_pair(self, older: Entry, newer: Entry, why: str) -> None:
        """Record that two entries may contradict each other."""
        known = select(PAIRS.c.older).where(PAIRS.c.older == older.id, PAIRS.c.newer == newer.id)
        if self.connection.execute(known).first() is None:
            self.connection.execute(insert(PAIRS), [{"older": older.id, "newer": newer.id, "why": why}])

    def settle_pair(self, older: str, newer: str) -> None:
        """Delete an open pair, because the contradiction between its two entries has been decided."""
        self.connection.execute(delete(PAIRS).where(PAIRS.c.older == older, PAIRS.c.newer == newer))

    def settle_removals(self, ids: Collection[str]) -> None:
        """Record that no copies of these removed entries are left outside the database."""
        every = list(ids)
        for start in range(0, len(every), AT_ONCE):
            chosen = REMOVALS.c.id.in_(every[start : start + AT_ONCE])
            self.connection.execute(update(REMOVALS).where(chosen).values(pending=False))

    def forget_removals(self, owner: str) -> None:
        """Delete the list of an owner's removed entries. The search index of the owner must be deleted, too."""
        self.connection.execute(delete(REMOVALS).where(REMOVALS.c.owner == owner))

    def new_id(self) -> str:
        """Return an id for a document."""
        return self._new_id()

    def _redacted(self, entry: Entry) -> Entry:
        """Return the entry without values of secrets. What was derived from a value is omitted."""
        if self._redactor is None:
            return entry
        given = {"text": entry.text, "title": entry.title, "data": entry.data}
        shown = self._redactor.masked(given)
        return entry if shown is given else replace(entry, statement=None, skeleton="", **shown)

    def _entry(self, new: NewEntry) -> Entry:
        return Entry(
            id=self._new_id(),
            owner=new.owner,
            space=new.space,
            kind=new.kind,
            text=new.text,
            source=new.source,
            title=new.title,
            document=new.document,
            position=new.position,
            learned=self.now if new.learned is None else new.learned,
            holds_from=new.holds_from,
            holds_to=new.holds_to,
            successor="",
            statement=new.statement,
            skeleton=new.skeleton,
            data=new.data,
            generation=self.generation,
        )

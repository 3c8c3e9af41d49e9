"""`MemoryView`: reads the memory in one transaction, so all results are consistent with each other."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, func, literal, or_, select, tuple_

from builtin_tools.memory.entries import Entry, EntryKind, KnownDocument, OpenPair
from builtin_tools.memory.tables import DOCUMENTS, ENTRIES, PAIRS, REMOVALS, document_of, entry_of

AT_ONCE = 500  # maximum values in one SQL `IN (...)`
Place = tuple[int, str]  # position of a change in the sequence of changes: generation number and entry id
START: Place = (-1, "")
SHARED = "shared:"
_AFTER_SHARED = "shared;"  # sorts after every text that starts with SHARED


@dataclass(frozen=True, slots=True)
class ChangedEntry:
    """A change to an entry, for updating an index.

    Attributes:
        entry: The entry as it is now; None if it was removed.
    """

    place: Place
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class EntrySelection:
    """A filter for `MemoryView.entries`. None means no restriction.

    Attributes:
        holds_at: A time at which an entry must be true.
        since, until: Bounds of the time at which an entry was learned; `until` is excluded.
    """

    kinds: Collection[EntryKind] | None = None
    spaces: Collection[str] | None = None
    document: str | None = None
    holds_at: float | None = None
    since: float | None = None
    until: float | None = None


ALL = EntrySelection()


class MemoryView:
    """Reads entries and documents. Every method blocks."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, owners: Collection[str], ids: Collection[str]) -> dict[str, Entry]:
        """Return the entries with these ids that belong to one of the owners."""
        found: dict[str, Entry] = {}
        for some in _parts(list(ids)):
            query = select(ENTRIES).where(ENTRIES.c.id.in_(some), ENTRIES.c.owner.in_(list(owners)))
            found |= {row.id: entry_of(row) for row in self.connection.execute(query)}
        return found

    def one(self, owners: Collection[str], entry_id: str) -> Entry | None:
        """Return an entry, or None if no owner has one with this id."""
        return self.get(owners, [entry_id]).get(entry_id)

    def entries(
        self,
        owners: Collection[str],
        chosen: EntrySelection = ALL,
        *,
        after: tuple[float, str] | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """Return entries, newest first.

        Args:
            owners: The owners of the entries.
            chosen: The filter.
            after: `learned` and id of the last entry on the previous page; None for the first page.
            limit: The maximum number of entries to return.
        """
        query = select(ENTRIES).where(ENTRIES.c.owner.in_(list(owners)), *_conditions(chosen))
        if after is not None:
            query = query.where(tuple_(ENTRIES.c.learned, ENTRIES.c.id) < tuple_(*map(literal, after)))
        query = query.order_by(ENTRIES.c.learned.desc(), ENTRIES.c.id.desc()).limit(limit)
        return [entry_of(row) for row in self.connection.execute(query)]

    def count(self, owners: Collection[str], chosen: EntrySelection = ALL) -> int:
        """Return how many entries `entries` would return without a limit."""
        query = select(func.count()).select_from(ENTRIES)
        return self.connection.execute(
            query.where(ENTRIES.c.owner.in_(list(owners)), *_conditions(chosen))
        ).scalar_one()

    def about(self, owner: str, space: str, subject: str, attribute: str | None = None) -> list[Entry]:
        """Return the entries with a statement about this subject and, if given, this attribute, oldest first."""
        wanted = [ENTRIES.c.owner == owner, ENTRIES.c.space == space, ENTRIES.c.subject == subject]
        if attribute is not None:
            wanted.append(ENTRIES.c.attribute == attribute)
        return self._oldest_first(*wanted)

    def alike(self, owner: str, space: str, skeleton: str) -> list[Entry]:
        """Return the entries with this skeleton, oldest first."""
        if not skeleton:
            return []
        return self._oldest_first(ENTRIES.c.owner == owner, ENTRIES.c.space == space, ENTRIES.c.skeleton == skeleton)

    def passages(self, document: str, first: int = 0, last: int | None = None) -> list[Entry]:
        """Return the passages of a document at the positions from `first` to `last`, both included, in order."""
        query = select(ENTRIES).where(ENTRIES.c.document == document, ENTRIES.c.document != "")
        query = query.where(ENTRIES.c.position >= first)
        if last is not None:
            query = query.where(ENTRIES.c.position <= last)
        return [entry_of(row) for row in self.connection.execute(query.order_by(ENTRIES.c.position))]

    def history(self, entry: Entry) -> list[Entry]:
        """Return this entry, the entries it replaced and those that replaced it, oldest first."""
        found = {entry.id: entry}
        waiting = [entry]
        while waiting:
            one = waiting.pop()
            query = select(ENTRIES).where(
                ENTRIES.c.owner == entry.owner, or_(ENTRIES.c.successor == one.id, ENTRIES.c.id == one.successor)
            )
            fresh = [each for each in map(entry_of, self.connection.execute(query)) if each.id not in found]
            found |= {each.id: each for each in fresh}
            waiting += fresh
        return sorted(found.values(), key=lambda each: (each.begins, each.learned))

    def taken(self, ids: Collection[str]) -> dict[str, str]:
        """Return the owner for each of these ids that an entry or a document already uses. Only for imports."""
        found: dict[str, str] = {}
        for some in _parts(list(ids)):
            for table in (ENTRIES, DOCUMENTS):
                query = select(table.c.id, table.c.owner).where(table.c.id.in_(some))
                found |= {row.id: row.owner for row in self.connection.execute(query)}
        return found

    def containing(self, owners: Collection[str], text: str, limit: int) -> list[Entry]:
        """Return entries that contain a text, ignoring case, newest first. Reads the texts of all entries."""
        like = ENTRIES.c.text.icontains(text, autoescape=True)
        query = select(ENTRIES).where(ENTRIES.c.owner.in_(list(owners)), like)
        rows = self.connection.execute(query.order_by(ENTRIES.c.learned.desc(), ENTRIES.c.id.desc()).limit(limit))
        return [entry_of(row) for row in rows]

    # Owners and spaces.

    def spaces(self, owner: str) -> list[str]:
        """Return the spaces in which an owner has entries or documents, sorted. Takes microseconds for each space."""
        found = list(self._distinct(ENTRIES.c.space, ENTRIES.c.owner == owner))
        documents = select(DOCUMENTS.c.space).where(DOCUMENTS.c.owner == owner).distinct()
        return sorted({*found, *self.connection.execute(documents).scalars()})

    def shared(self) -> list[str]:
        """Return the shared spaces that have entries or documents, sorted."""
        found = self._distinct(ENTRIES.c.owner, ENTRIES.c.owner >= SHARED, ENTRIES.c.owner < _AFTER_SHARED)
        documents = select(DOCUMENTS.c.owner).where(DOCUMENTS.c.owner >= SHARED, DOCUMENTS.c.owner < _AFTER_SHARED)
        return sorted({*found, *self.connection.execute(documents.distinct()).scalars()})

    def owners(self) -> list[str]:
        """Return everyone who has entries, sorted."""
        return list(self._distinct(ENTRIES.c.owner))

    # Documents.

    def documents(self, owners: Collection[str], spaces: Collection[str] | None = None) -> list[KnownDocument]:
        """Return documents, newest first."""
        query = select(DOCUMENTS).where(DOCUMENTS.c.owner.in_(list(owners)))
        if spaces is not None:
            query = query.where(DOCUMENTS.c.space.in_(list(spaces)))
        rows = self.connection.execute(query.order_by(DOCUMENTS.c.learned.desc(), DOCUMENTS.c.id))
        return [document_of(row) for row in rows]

    def document(self, owners: Collection[str], document_id: str) -> KnownDocument | None:
        """Return a document, or None if no owner has one with this id."""
        query = select(DOCUMENTS).where(DOCUMENTS.c.id == document_id, DOCUMENTS.c.owner.in_(list(owners)))
        row = self.connection.execute(query).one_or_none()
        return None if row is None else document_of(row)

    def document_place(self, document_id: str) -> str | None:
        """Return the title and the path or URL of a document as one string, without reading the document's text."""
        query = select(DOCUMENTS.c.title, DOCUMENTS.c.uri).where(DOCUMENTS.c.id == document_id)
        row = self.connection.execute(query).one_or_none()
        return None if row is None else f"{row.title} ({row.uri})" if row.title != row.uri else row.uri

    def document_at(self, owner: str, space: str, uri: str) -> KnownDocument | None:
        """Return the document that was read from a path or URL; None if there is none."""
        query = select(DOCUMENTS).where(DOCUMENTS.c.owner == owner, DOCUMENTS.c.space == space, DOCUMENTS.c.uri == uri)
        row = self.connection.execute(query).one_or_none()
        return None if row is None else document_of(row)

    def document_with(self, owner: str, space: str, digest: str) -> KnownDocument | None:
        """Return the document whose bytes have this digest; None if there is none."""
        query = select(DOCUMENTS).where(
            DOCUMENTS.c.owner == owner, DOCUMENTS.c.space == space, DOCUMENTS.c.digest == digest
        )
        row = self.connection.execute(query.order_by(DOCUMENTS.c.learned).limit(1)).one_or_none()
        return None if row is None else document_of(row)

    # Pairs.

    def open_pairs(self, owners: Collection[str], ids: Collection[str] | None = None) -> list[OpenPair]:
        """Return the open pairs of these owners; with `ids`, only pairs that contain one of these entries."""
        older = select(ENTRIES.c.id).where(ENTRIES.c.id == PAIRS.c.older, ENTRIES.c.owner.in_(list(owners)))
        query = select(PAIRS).where(older.exists()).order_by(PAIRS.c.older, PAIRS.c.newer)
        if ids is None:
            return [OpenPair(row.older, row.newer, row.why) for row in self.connection.execute(query)]
        found: dict[tuple[str, str], OpenPair] = {}
        for some in _parts(list(ids)):
            chosen = query.where(or_(PAIRS.c.older.in_(some), PAIRS.c.newer.in_(some)))
            found |= {(row.older, row.newer): OpenPair(*row) for row in self.connection.execute(chosen)}
        return list(found.values())

    # Changes.

    def changed_since(self, owner: str, after: Place, limit: int) -> list[ChangedEntry]:
        """Return the next changes to an owner's entries, in order.

        Args:
            owner: The owner of the entries.
            after: The position of the last change that was read.
            limit: The maximum number of changes to return.
        """
        place = tuple_(literal(after[0]), literal(after[1]))
        entries = select(ENTRIES).where(ENTRIES.c.owner == owner, tuple_(ENTRIES.c.generation, ENTRIES.c.id) > place)
        removed = select(REMOVALS.c.generation, REMOVALS.c.id).where(
            REMOVALS.c.owner == owner, tuple_(REMOVALS.c.generation, REMOVALS.c.id) > place
        )
        entries = entries.order_by(ENTRIES.c.generation, ENTRIES.c.id).limit(limit)
        removed = removed.order_by(REMOVALS.c.generation, REMOVALS.c.id).limit(limit)
        changes = [ChangedEntry((row.generation, row.id), entry_of(row)) for row in self.connection.execute(entries)]
        changes += [ChangedEntry((row.generation, row.id), None) for row in self.connection.execute(removed)]
        return sorted(changes, key=lambda change: change.place)[:limit]

    def count_changed(self, owner: str, after: Place) -> int:
        """Return how many changes `changed_since` would return without a limit."""
        place = tuple_(literal(after[0]), literal(after[1]))
        return sum(
            self.connection.execute(
                select(func.count())
                .select_from(table)
                .where(table.c.owner == owner, tuple_(table.c.generation, table.c.id) > place)
            ).scalar_one()
            for table in (ENTRIES, REMOVALS)
        )

    def pending_removals(self) -> list[str]:
        """Return the ids of removed entries whose copies, such as in backups, have yet to be erased."""
        return list(self.connection.execute(select(REMOVALS.c.id).where(REMOVALS.c.pending)).scalars())

    def _oldest_first(self, *wanted: ColumnElement[bool]) -> list[Entry]:
        # Sorted here: with ORDER BY, SQLite would read all entries of the space through the time index.
        found = [entry_of(row) for row in self.connection.execute(select(ENTRIES).where(*wanted))]
        return sorted(found, key=lambda each: (each.learned, each.id))

    def _distinct(self, column: ColumnElement[str], *wanted: ColumnElement[bool]) -> Iterator[str]:
        """Yield the distinct values of an indexed column, in order, without reading every row."""
        value = self.connection.execute(select(func.min(column)).where(*wanted)).scalar()
        while value is not None:
            yield value
            value = self.connection.execute(select(func.min(column)).where(*wanted, column > value)).scalar()


def _conditions(chosen: EntrySelection) -> Sequence[ColumnElement[bool]]:
    """Return the SQL conditions for a filter."""
    columns = ENTRIES.c
    wanted: list[ColumnElement[bool]] = []
    if chosen.kinds is not None:
        wanted.append(columns.kind.in_([kind.value for kind in chosen.kinds]))
    if chosen.spaces is not None:
        wanted.append(columns.space.in_(list(chosen.spaces)))
    if chosen.document is not None:
        wanted.append(columns.document == chosen.document)
    if chosen.holds_at is not None:
        began = or_(columns.holds_from.is_(None), columns.holds_from <= chosen.holds_at)
        wanted.append(and_(began, or_(columns.holds_to.is_(None), columns.holds_to > chosen.holds_at)))
    if chosen.since is not None:
        wanted.append(columns.learned >= chosen.since)
    if chosen.until is not None:
        wanted.append(columns.learned < chosen.until)
    return wanted


def _parts(values: list[str]) -> Iterator[list[str]]:
    return (values[start : start + AT_ONCE] for start in range(0, len(values), AT_ONCE))

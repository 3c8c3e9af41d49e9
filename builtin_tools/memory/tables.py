"""The tables of ``memory.db``, and functions that convert entries and documents to rows and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Row, String, Table, Text

from builtin_tools.memory.entries import Entry, EntryKind, EntrySource, KnownDocument, SourceKind, Statement

ID = 32  # characters of an id
SCHEMA = MetaData()
ENTRIES = Table(
    "memory_entries",
    SCHEMA,
    Column("id", String(ID), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("space", Text, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("text", Text, nullable=False),
    Column("source", Text, nullable=False),  # JSON
    Column("title", Text, nullable=False),
    Column("document", String(ID), nullable=False),
    Column("position", Integer, nullable=False),
    Column("learned", Float, nullable=False),
    Column("holds_from", Float),
    Column("holds_to", Float),
    Column("successor", String(ID), nullable=False),
    Column("subject", Text),  # null if there is no statement, like the next four
    Column("attribute", Text),
    Column("value", Text),
    Column("negated", Boolean),
    Column("multiple", Boolean),
    Column("skeleton", Text),  # null if there is none
    Column("data", Text, nullable=False),  # JSON
    Column("generation", BigInteger, nullable=False),
)
Index("memory_by_change", ENTRIES.c.owner, ENTRIES.c.generation, ENTRIES.c.id)
Index("memory_by_time", ENTRIES.c.owner, ENTRIES.c.space, ENTRIES.c.learned, ENTRIES.c.id)
Index(
    "memory_by_statement",
    ENTRIES.c.owner,
    ENTRIES.c.space,
    ENTRIES.c.subject,
    ENTRIES.c.attribute,
    sqlite_where=ENTRIES.c.subject.is_not(None),
)
Index(
    "memory_by_skeleton",
    ENTRIES.c.owner,
    ENTRIES.c.space,
    ENTRIES.c.skeleton,
    sqlite_where=ENTRIES.c.skeleton.is_not(None),
)
Index("memory_by_document", ENTRIES.c.document, ENTRIES.c.position, sqlite_where=ENTRIES.c.document != "")

REMOVALS = Table(  # ids of removed entries, which every index must remove, too
    "memory_removals",
    SCHEMA,
    Column("id", String(ID), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    # Whether copies outside the database, such as in backups, have yet to be erased.
    Column("pending", Boolean, nullable=False),
)
Index("memory_removals_by_change", REMOVALS.c.owner, REMOVALS.c.generation, REMOVALS.c.id)
Index("memory_removals_pending", REMOVALS.c.id, sqlite_where=REMOVALS.c.pending)

DOCUMENTS = Table(
    "memory_documents",
    SCHEMA,
    Column("id", String(ID), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("space", Text, nullable=False),
    Column("uri", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("media_type", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("learned", Float, nullable=False),
    Column("data", Text, nullable=False),  # JSON
)
Index("memory_documents_by_uri", DOCUMENTS.c.owner, DOCUMENTS.c.space, DOCUMENTS.c.uri)

PAIRS = Table(
    "memory_pairs",
    SCHEMA,
    Column("older", String(ID), primary_key=True),
    Column("newer", String(ID), primary_key=True),
    Column("why", Text, nullable=False),
)
Index("memory_pairs_by_newer", PAIRS.c.newer)


def row_of(entry: Entry) -> dict[str, Any]:
    """Convert an entry to a row."""
    said = entry.statement
    return {
        "id": entry.id,
        "owner": entry.owner,
        "space": entry.space,
        "kind": entry.kind.value,
        "text": entry.text,
        "source": source_text(entry.source),
        "title": entry.title,
        "document": entry.document,
        "position": entry.position,
        "learned": entry.learned,
        "holds_from": entry.holds_from,
        "holds_to": entry.holds_to,
        "successor": entry.successor,
        "subject": said.subject if said is not None else None,
        "attribute": said.attribute if said is not None else None,
        "value": said.value if said is not None else None,
        "negated": said.negated if said is not None else None,
        "multiple": said.multiple if said is not None else None,
        "skeleton": entry.skeleton or None,
        "data": json_text(entry.data),
        "generation": entry.generation,
    }


def entry_of(row: Any) -> Entry:
    """Convert a row, or another object with the columns as attributes, to an entry."""
    said = None
    if row.subject is not None:
        said = Statement(row.subject, row.attribute, row.value, negated=row.negated, multiple=row.multiple)
    return Entry(
        id=row.id,
        owner=row.owner,
        space=row.space,
        kind=EntryKind(row.kind),
        text=row.text,
        source=source_of(json.loads(row.source)),
        title=row.title,
        document=row.document,
        position=row.position,
        learned=row.learned,
        holds_from=row.holds_from,
        holds_to=row.holds_to,
        successor=row.successor,
        statement=said,
        skeleton=row.skeleton or "",
        data=json.loads(row.data),
        generation=row.generation,
    )


def document_row(document: KnownDocument) -> dict[str, Any]:
    """Convert a document to a row."""
    return {**asdict(document), "data": json_text(document.data)}


def document_of(row: Row[Any]) -> KnownDocument:
    """Convert a row to a document."""
    return KnownDocument(**{**row._mapping, "data": json.loads(row.data)})  # noqa: SLF001 -- SQLAlchemy's public name


def source_text(source: EntrySource) -> str:
    """Encode a source as JSON, without empty values."""
    return json_text({name: value for name, value in asdict(source).items() if value not in ("", None, ())})


def source_of(values: Mapping[str, Any]) -> EntrySource:
    """Decode a source that `source_text` encoded."""
    return EntrySource(**{**values, "kind": SourceKind(values["kind"]), "of": tuple(values.get("of", ()))})


def json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

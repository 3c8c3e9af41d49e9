"""Exports the memory with its sources and times as JSON Lines, and imports such an export into another home.

The first line is a header, each other line a document, an entry or an open pair:

    {"knackbox_memory": 1, "exported": "2026-03-11T15:30:00+00:00"}
    {"document": {...}}
    {"entry": {...}}
    {"pair": {...}}

Ids are kept unless another owner already uses them. Entries from an earlier import are not stored twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from builtin_tools.memory.changes import MemoryChange
from builtin_tools.memory.entries import Entry, KnownDocument
from builtin_tools.memory.export_reader import FORMAT, VERSION, read_export
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.tables import json_text


@dataclass(frozen=True, slots=True)
class ImportedMemories:
    """The numbers of imported entries and documents.

    Attributes:
        known: The number of entries that already existed.
    """

    entries: int
    documents: int
    known: int


def export_lines(store: MemoryStore, scope: MemoryScope, exported: str) -> Iterator[str]:
    """Export everything that the scope may read, as lines without line breaks. Blocks.

    Args:
        exported: The time of the export, in ISO 8601.
    """
    yield json_text({FORMAT: VERSION, "exported": exported})
    with store.reading() as memory:
        owned = scope.readable(memory)
        names = {space for spaces in owned.values() for space in spaces}
        documents = [each for each in memory.documents(list(owned)) if each.space in names]
        entries = [each for each in memory.entries(list(owned)) if each.space in names]
        ids = {each.id for each in entries}
        for document in documents:
            yield json_text({"document": _without(asdict(document), "owner")})
        for entry in reversed(entries):
            values = _without(asdict(entry), "owner", "generation")
            source = {name: value for name, value in values["source"].items() if value not in ("", None, ())}
            yield json_text({"entry": {**values, "source": source}})
        for pair in memory.open_pairs(list(owned)):
            if {pair.older, pair.newer} <= ids:
                yield json_text({"pair": asdict(pair)})


def import_lines(store: MemoryStore, scope: MemoryScope, lines: Iterable[str]) -> ImportedMemories:
    """Import an export into the personal spaces of the scope's user and into shared spaces. Blocks.

    Either everything is imported or nothing.

    Raises:
        ImportRefused: A line is invalid.
        ToolFailure: The scope may not use a space of the export.
    """
    read = read_export(lines, scope)
    documents, entries = read.documents, read.entries
    with store.changing() as memory:
        ids = _ids(memory, documents, entries)
        present = {entry.id for entry in entries if _is_there(memory, entry)}
        for document in documents:
            if memory.document([document.owner], ids[document.id]) is None:
                memory.add_document(replace(document, id=ids[document.id]), [])
        for entry in entries:
            if entry.id not in present:
                memory.put(_mapped(entry, ids))
        by_id = {entry.id: _mapped(entry, ids) for entry in entries}
        for pair in read.pairs:
            memory.open_pair(by_id[pair.older], by_id[pair.newer], pair.why)
    return ImportedMemories(len(entries) - len(present), len(documents), len(present))


def _ids(memory: MemoryChange, documents: list[KnownDocument], entries: list[Entry]) -> dict[str, str]:
    """Map the id of each imported entry and document to itself, or to a new id if another owner already uses it."""
    taken = memory.taken([each.id for each in entries] + [each.id for each in documents])
    ids = {}
    owners = {**{each.id: each.owner for each in entries}, **{each.id: each.owner for each in documents}}
    for each, owner in owners.items():
        ids[each] = each if taken.get(each, owner) == owner else memory.new_id()
    return ids


def _is_there(memory: MemoryChange, entry: Entry) -> bool:
    known = memory.one([entry.owner], entry.id)
    return known is not None and known.text == entry.text


def _mapped(entry: Entry, ids: Mapping[str, str]) -> Entry:
    source = replace(entry.source, of=tuple(ids.get(each, each) for each in entry.source.of))
    return replace(
        entry,
        id=ids[entry.id],
        document=ids.get(entry.document, ""),
        successor=ids.get(entry.successor, ""),
        source=source,
    )


def _without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}

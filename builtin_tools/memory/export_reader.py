"""Reads a memory export, and refuses it if any line is invalid."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel, NonNegativeInt, TypeAdapter, ValidationError

from builtin_tools.memory.entries import Entry, EntryKind, KnownDocument, OpenPair, Statement
from builtin_tools.memory.lessons.lesson import LessonOrigin
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.tables import json_text, source_of

FORMAT = "knackbox_memory"
VERSION = 1
MOST_POSITION = 2**31 - 2  # an index stores positions, and the position after each, in 32 bits
_ID = re.compile(r"[0-9a-f]{32}")

T = TypeVar("T", Entry, KnownDocument, OpenPair)
_ENTRY, _DOCUMENT, _PAIR = TypeAdapter(Entry), TypeAdapter(KnownDocument), TypeAdapter(OpenPair)


class _FactData(BaseModel):
    """The allowed contents of `Entry.data` for a fact. The field names are the values of `REPEATS` and `TIMES`."""

    repeats: NonNegativeInt = 0
    times: list[tuple[float | None, float | None]] = []


class _LessonData(BaseModel):
    """The contents of `Entry.data` for a lesson, as `Lesson.data` returns them."""

    mistake: str
    fix: str
    where: str = ""
    tool: str = ""
    reason: str = ""
    evidence: list[str] = []
    origin: LessonOrigin = LessonOrigin.RUN
    draft: bool = False
    count: NonNegativeInt = 1
    shown: NonNegativeInt = 0
    followed: NonNegativeInt = 0
    helped: NonNegativeInt = 0
    updated: float = 0.0


class ImportRefused(Exception):
    """The file is not a memory export, or one of its lines is invalid. Nothing was imported."""


@dataclass(frozen=True, slots=True)
class ExportedMemories:
    """The contents of an export. Each of them belongs to the importing user or to a shared space."""

    documents: list[KnownDocument]
    entries: list[Entry]
    pairs: list[OpenPair]


def read_export(lines: Iterable[str], scope: MemoryScope) -> ExportedMemories:
    """Check and return the contents of an export.

    Raises:
        ImportRefused: A line is invalid.
        ToolFailure: The scope may not use a space of the export.
    """
    documents: dict[str, KnownDocument] = {}
    entries: dict[str, Entry] = {}
    pairs: list[OpenPair] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
            if number == 1:
                if values.get(FORMAT) != VERSION:
                    raise ImportRefused(f"Line 1 is not the header of a memory export, version {VERSION}.")
            elif "document" in values:
                document = _document(values["document"], scope)
                _add(documents, document.id, document)
            elif "entry" in values:
                entry = _entry(values["entry"], scope)
                _add(entries, entry.id, entry)
            else:
                pairs.append(_typed(_PAIR, OpenPair(**values["pair"])))
        except ValidationError as error:
            raise ImportRefused(f"Line {number} is invalid ({_first(error)}). Nothing was imported.") from error
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise ImportRefused(f"Line {number} is invalid ({error}). Nothing was imported.") from error
    known = [pair for pair in pairs if pair.older in entries and pair.newer in entries]
    return ExportedMemories(list(documents.values()), list(entries.values()), known)


def _document(values: Mapping[str, Any], scope: MemoryScope) -> KnownDocument:
    document = _typed(_DOCUMENT, KnownDocument(**values, owner=scope.owner(values["space"])))
    _check_times(document.learned)
    return document


def _entry(values: Mapping[str, Any], scope: MemoryScope) -> Entry:
    said = values["statement"]
    entry = _typed(
        _ENTRY,
        Entry(
            **{
                **values,
                "owner": scope.owner(values["space"]),
                "kind": EntryKind(values["kind"]),
                "source": source_of(values["source"]),
                "statement": None if said is None else Statement(**said),
                "generation": 0,
            }
        ),
    )
    _check_times(entry.learned, entry.holds_from, entry.holds_to)
    (_LessonData if entry.kind is EntryKind.LESSON else _FactData).model_validate_json(
        json_text(entry.data), strict=True
    )
    if entry.kind is EntryKind.PROFILE and entry.statement is None:
        raise ValueError("an item of the profile must have a statement")
    if not 0 <= entry.position <= MOST_POSITION:
        raise ValueError(f"the position must be from 0 to {MOST_POSITION}, not {entry.position}")
    return entry


def _typed(adapter: TypeAdapter[T], value: T) -> T:
    """Check that the attributes of a value have the declared types, and return it.

    Raises:
        ValidationError: An attribute has a wrong type.
    """
    return adapter.validate_json(json_text(asdict(value)), strict=True)


def _add(known: dict[str, T], id_: str, value: T) -> None:
    if not _ID.fullmatch(id_):
        raise ValueError(f"{id_[:80]!r} is not an id of 32 hexadecimal digits")
    if id_ in known:
        raise ValueError(f"the id {id_} is in an earlier line")
    known[id_] = value


def _check_times(*times: float | None) -> None:
    """Raise ValueError for times that cannot be converted to dates."""
    for time in times:
        if time is not None:
            try:
                datetime.fromtimestamp(time, UTC)
            except (ValueError, OverflowError, OSError) as error:
                raise ValueError(f"{time} is not a time in seconds since 1970") from error


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])[:200]}: {first['msg']}"

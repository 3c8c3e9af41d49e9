"""Describes entries and documents for tools and commands: as JSON values, and as lines for people and models."""

from datetime import UTC, datetime

from typing_extensions import TypedDict

from builtin_tools.memory.entries import Entry, KnownDocument, SourceKind
from builtin_tools.memory.recall import RecallHit

_SHORT = 160  # characters of a text in a list


class EntryOutput(TypedDict):
    """An entry of the memory.

    Attributes:
        source: Who said it, or which document contains it, in words.
        learned: When the entry was stored. All times are ISO 8601 in UTC.
        holds_from, holds_to: The period in which the entry is true; null for an open end.
        replaced_by: The id of the entry that replaced it, or null.
    """

    id: str
    kind: str
    space: str
    text: str
    source: str
    learned: str
    holds_from: str | None
    holds_to: str | None
    replaced_by: str | None


class HitOutput(EntryOutput):
    """An entry that a search found.

    Attributes:
        score: Ranks the hits of one request: higher is better.
        fit: The probability that the entry answers the request.
        holds: Whether the entry is true at the time that was asked for.
        document: The title and the path or URL of the entry's document, or null.
        page, start, end: Where a passage is in its document: the page, and the range of characters in the extracted
            text.
        contradicts: Other entries that may contradict this one. It is not decided which is right.
        around: The passages before and after a passage.
    """

    score: float
    fit: float
    holds: bool
    document: str | None
    page: int | None
    start: int | None
    end: int | None
    contradicts: list[str]
    around: list[str]


class DocumentOutput(TypedDict):
    """A document in the memory.

    Attributes:
        uri: The document's path in the workspace, or its URL.
        characters: The length of the extracted text.
    """

    id: str
    title: str
    uri: str
    space: str
    media_type: str
    characters: int
    learned: str


def describe(entry: Entry, document: str = "") -> EntryOutput:
    """Return an entry as JSON values."""
    return EntryOutput(
        id=entry.id,
        kind=entry.kind.value,
        space=entry.space,
        text=entry.text,
        source=source_in_words(entry, document),
        learned=iso(entry.learned),
        holds_from=None if entry.holds_from is None else iso(entry.holds_from),
        holds_to=None if entry.holds_to is None else iso(entry.holds_to),
        replaced_by=entry.successor or None,
    )


def describe_hit(hit: RecallHit) -> HitOutput:
    """Return a hit as JSON values."""
    source = hit.entry.source
    return HitOutput(
        **describe(hit.entry, hit.document),
        score=round(hit.score, 4),
        fit=round(hit.fit, 3),
        holds=hit.holds,
        document=hit.document or None,
        page=source.page,
        start=source.start,
        end=source.end,
        contradicts=[f"{each.text} ({each.id})" for each in hit.contradicts],
        around=[each.text for each in hit.around],
    )


def describe_document(document: KnownDocument) -> DocumentOutput:
    """Return a document as JSON values, without its text."""
    return DocumentOutput(
        id=document.id,
        title=document.title,
        uri=document.uri,
        space=document.space,
        media_type=document.media_type,
        characters=len(document.text),
        learned=iso(document.learned),
    )


def line_of_hit(hit: RecallHit) -> str:
    """Return a hit as text for a model."""
    entry = hit.entry
    until = "" if entry.holds_to is None else f", until {iso(entry.holds_to)[:10]}"
    lines = [f"- [{entry.id}] {entry.text} ({source_in_words(entry, hit.document)}, {iso(entry.learned)[:10]}{until})"]
    lines += [f"  undecided, may contradict: {each.text} [{each.id}]" for each in hit.contradicts]
    lines += [f"  nearby: {each.text}" for each in hit.around]
    return "\n".join(lines)


def line_of(entry: Entry) -> str:
    """Return an entry as one short line."""
    text = " ".join(entry.text.split())
    short = text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
    return f"- [{entry.id}] {short} ({entry.kind.value}, {entry.space})"


def source_in_words(entry: Entry, document: str = "") -> str:
    """Return where an entry comes from, for people."""
    source = entry.source
    if source.kind is SourceKind.DOCUMENT:
        page = "" if source.page is None else f", page {source.page}"
        return f"{document or 'document ' + entry.document}{page}"
    if source.kind is SourceKind.CONSOLIDATION:
        return f"consolidated from {len(source.of)} entries"
    call = f", call {source.call_id}" if source.call_id else ""
    return f"said by {source.user}{call}"


def iso(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

"""`DocumentIngestion`: reads documents in boxes and stores their passages in the memory (MEM-3)."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from builtin_tools.documents.extraction import ExtractedText, extract
from builtin_tools.documents.formats import MEDIA_TYPES, UnknownFormat, format_of
from builtin_tools.memory.documents.passages import CitedPassage, split
from builtin_tools.memory.entries import EntryKind, EntrySource, KnownDocument, NewEntry, SourceKind
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import MemoryView
from engine.contract.context import no_progress
from engine.contract.failure import ToolFailure
from sandbox.contract import Sandbox

MOST_BYTES = 64 << 20

OnProgress = Callable[..., None]  # called with a message and the completed share, from 0 to 1


class IngestionStatus(StrEnum):
    """What happened to a document that was ingested.

    Attributes:
        NEW: It was stored for the first time.
        REPLACED: It has changed since it was stored, so its passages were replaced.
        UNCHANGED: It is already stored and has not changed.
        SAME_CONTENT: A document with the same bytes is already stored under another path or URL, and was kept.
    """

    NEW = "new"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"
    SAME_CONTENT = "same_content"


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document to be stored.

    Attributes:
        uri: The path or URL from which it was read.
        media_type: The media type that a server stated; "" if unknown.
    """

    uri: str
    data: bytes
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class IngestedDocument:
    """The outcome for one document.

    Attributes:
        document: The stored document.
        passages: The number of its passages.
        notes: Remarks about its text for a person, such as that pages have no text.
    """

    document: KnownDocument
    status: IngestionStatus
    passages: int
    notes: tuple[str, ...] = ()


class DocumentIngestion:
    """Stores documents. Its methods are coroutines and do not block the event loop."""

    def __init__(self, store: MemoryStore, sandbox: Sandbox, ocr: str = "") -> None:
        """Create the ingestion.

        Args:
            store: The memory.
            sandbox: Runs the boxes in which documents are read.
            ocr: The languages in which tesseract reads scanned pages, such as ``eng+deu``; "" if none.
        """
        self._store = store
        self._sandbox = sandbox
        self._ocr = ocr

    async def ingest(
        self,
        found: FoundDocument,
        *,
        owner: str,
        space: str,
        source: EntrySource,
        progress: OnProgress = no_progress,
    ) -> IngestedDocument:
        """Store a document, unless it is already stored and has not changed.

        Args:
            found: The document.
            owner: The owner of its passages.
            space: The memory space of its passages.
            source: Who stores the document. Each passage gets a copy of this source, with the position of the passage.
            progress: Called with what is being done and the completed share, from 0 to 1.

        Raises:
            ToolFailure: The document is too large, or cannot be read. Nothing was changed.
        """
        if len(found.data) > MOST_BYTES:
            raise _unreadable(found.uri, f"it has {len(found.data):,} bytes, and {MOST_BYTES:,} are allowed. Split it.")
        digest = await asyncio.to_thread(lambda: hashlib.sha256(found.data).hexdigest())
        known = await asyncio.to_thread(self._known, owner, space, found.uri, digest)
        if known is not None:
            return known
        try:
            format_name = await asyncio.to_thread(format_of, found.data, found.uri, found.media_type)
        except UnknownFormat as error:
            raise _unreadable(found.uri, str(error)) from error
        progress(f"reading {found.uri}", 0.1)
        text = await extract(self._sandbox, found.data, format_name, name=found.uri, agent=source.agent, ocr=self._ocr)
        progress(f"splitting {found.uri}", 0.7)
        passages = await asyncio.to_thread(split, text)
        if not passages:
            raise _unreadable(found.uri, "it contains no text.")
        progress(f"storing {found.uri}", 0.8)
        document = KnownDocument(
            id="",
            owner=owner,
            space=space,
            uri=found.uri,
            title=text.title,
            digest=digest,
            media_type=MEDIA_TYPES[format_name],
            text=text.text,
            learned=0.0,
            data=_data(text),
        )
        return await asyncio.to_thread(self._store_document, document, passages, source, text.notes)

    def _known(self, owner: str, space: str, uri: str, digest: str) -> IngestedDocument | None:
        """Return the outcome for a document that is already stored and unchanged; None for any other."""
        with self._store.reading() as memory:
            return _same(memory, owner, space, uri, digest)

    def _store_document(
        self, document: KnownDocument, passages: list[CitedPassage], source: EntrySource, notes: tuple[str, ...]
    ) -> IngestedDocument:
        with self._store.changing() as memory:
            # Another process may have stored it meanwhile.
            same = _same(memory, document.owner, document.space, document.uri, document.digest)
            if same is not None:
                return same
            before = memory.document_at(document.owner, document.space, document.uri)
            new_id = before.id if before is not None else memory.new_id()
            stored = replace(document, id=new_id, learned=memory.now)
            memory.add_document(stored, [_entry(stored, at, each, source) for at, each in enumerate(passages)])
        status = IngestionStatus.NEW if before is None else IngestionStatus.REPLACED
        return IngestedDocument(stored, status, len(passages), notes)


def _same(memory: MemoryView, owner: str, space: str, uri: str, digest: str) -> IngestedDocument | None:
    here = memory.document_at(owner, space, uri)
    same = here if here is not None and here.digest == digest else memory.document_with(owner, space, digest)
    if same is None:
        return None
    status = IngestionStatus.UNCHANGED if same.uri == uri else IngestionStatus.SAME_CONTENT
    return IngestedDocument(same, status, len(memory.passages(same.id)))


def _entry(document: KnownDocument, position: int, passage: CitedPassage, source: EntrySource) -> NewEntry:
    titles = [part for part in (document.title, passage.title) if part]
    if len(titles) > 1 and (titles[1] == titles[0] or titles[1].startswith(f"{titles[0]} ")):
        titles = titles[1:]  # the highest heading is often the title
    return NewEntry(
        owner=document.owner,
        space=document.space,
        kind=EntryKind.PASSAGE,
        text=passage.text,
        source=replace(source, kind=SourceKind.DOCUMENT, page=passage.page, start=passage.start, end=passage.end),
        title=" > ".join(titles),
        document=document.id,
        position=position,
        learned=document.learned,
    )


def _data(text: ExtractedText) -> dict[str, object]:
    return {"characters": len(text.text), "pages": len(text.pages) or None, "notes": list(text.notes)}


def _unreadable(uri: str, why: str) -> ToolFailure:
    return ToolFailure(f"{uri}: {why}", reason="unreadable_document", may_have_started=False)

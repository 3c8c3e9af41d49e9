"""`WorkspaceIntake`: stores documents from the workspace of a call, or from a URL, in the memory."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import PurePosixPath

from builtin_tools.documents.formats import SUFFIXES
from builtin_tools.download_rules import DownloadRules
from builtin_tools.memory.documents.concurrent_map import concurrent_map
from builtin_tools.memory.documents.ingestion import (
    MOST_BYTES,
    DocumentIngestion,
    FoundDocument,
    IngestedDocument,
    IngestionStatus,
    OnProgress,
)
from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.intake import IntakeResult
from builtin_tools.memory.store import MemoryStore
from engine.contract.context import CallContext, no_progress
from engine.contract.failure import ToolFailure
from engine.dispatch.workspace_folder import folder_of, workspace_failures
from engine.stores.workspace import FolderWorkspace
from sandbox.contract import Sandbox

MOST_FILES = 2_000  # maximum documents in one folder


class WorkspaceIntake:
    """Implements `DocumentIntake` for tool calls."""

    def __init__(self, store: MemoryStore, ocr: str = "") -> None:
        """Create the intake. `ocr` is that of `DocumentIngestion`."""
        self._store = store
        self._ocr = ocr

    def ingestion(self, sandbox: Sandbox) -> DocumentIngestion:
        """Return the ingestion that reads documents in a sandbox, with the configured recognition of text."""
        return DocumentIngestion(self._store, sandbox, self._ocr)

    async def ingest(self, ctx: CallContext, source: str, space: str, owner: str) -> list[IntakeResult]:
        """Store a file or a folder of the workspace, or a URL.

        For a folder, every file with a supported suffix is stored. If one cannot be read, its result says so, and the
        others are still stored.

        Raises:
            ToolFailure: The file or URL cannot be read, or `source` does not exist.
        """
        ingestion = self.ingestion(ctx.sandbox)
        by = EntrySource(SourceKind.DOCUMENT, user=ctx.turn.user, agent=ctx.turn.agent, call_id=ctx.call_id)

        async def take(found: FoundDocument, progress: OnProgress = no_progress) -> IntakeResult:
            return _result(await ingestion.ingest(found, owner=owner, space=space, source=by, progress=progress))

        if source.startswith(("http://", "https://")):
            return [await take(await _downloaded(ctx, source), ctx.progress)]
        folder = folder_of(ctx)
        with workspace_failures():
            paths = await asyncio.to_thread(_documents, folder, source)
        if paths is None:
            return [await take(await _read(folder, source), ctx.progress)]
        completed = itertools.count(1)

        async def take_one(path: str) -> IntakeResult:
            try:
                result = await take(await _read(folder, path))
            except ToolFailure as error:
                result = IntakeResult("", path, path, 0, note=f"Not taken in: {error}")
            number = next(completed)
            ctx.progress(f"{path} ({number} of {len(paths)})", number / len(paths))
            return result

        return await concurrent_map(paths, take_one)


def _documents(folder: FolderWorkspace, source: str) -> list[str] | None:
    """Return the documents of a folder, sorted; None if `source` is a file."""
    if folder.stat(source).kind != "folder":
        return None
    found = sorted(_readable(folder, source))
    if len(found) > MOST_FILES:
        raise ToolFailure(
            f"{source}: it contains {len(found):,} documents, and {MOST_FILES:,} are allowed. Choose a subfolder.",
            reason="too_many_documents",
            may_have_started=False,
        )
    return found


def _readable(folder: FolderWorkspace, source: str) -> Iterator[str]:
    for entry in folder.walk(source):
        if entry.kind == "file" and PurePosixPath(entry.path).suffix.lower() in SUFFIXES:
            yield entry.path


async def _read(folder: FolderWorkspace, path: str) -> FoundDocument:
    with workspace_failures():
        data = await asyncio.to_thread(folder.read, path, MOST_BYTES)
    return FoundDocument(str(PurePosixPath(path)), data)


async def _downloaded(ctx: CallContext, url: str) -> FoundDocument:
    from builtin_tools.download import fetch  # noqa: PLC0415 -- httpx, which takes a tenth of a second to import

    loaded = await fetch(url, ctx.need(DownloadRules), ctx.clock, lambda share: ctx.progress("downloading", share))
    return FoundDocument(url, loaded.data, loaded.media_type)


def _result(done: IngestedDocument) -> IntakeResult:
    document, notes = done.document, list(done.notes)
    if done.status is IngestionStatus.SAME_CONTENT:
        notes.append(f"The same content is already stored as {document.uri}.")
    pages = document.data.get("pages")
    return IntakeResult(
        document.id,
        document.title or document.uri,
        document.uri,
        done.passages,
        pages if isinstance(pages, int) else None,
        unchanged=done.status in {IngestionStatus.UNCHANGED, IngestionStatus.SAME_CONTENT},
        note=" ".join(notes),
    )

"""`WorkspaceIntake`: takes documents from the workspace of a call, or from a URL, into the memory."""

import asyncio
from collections.abc import Iterator
from pathlib import PurePosixPath

from builtin_tools.download_rules import DownloadRules
from builtin_tools.memory.documents.formats import SUFFIXES
from builtin_tools.memory.documents.ingestion import (
    MOST_BYTES,
    DocumentIngestion,
    FoundDocument,
    IngestedDocument,
    IngestionStatus,
)
from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.intake import IntakeResult
from builtin_tools.memory.store import MemoryStore
from engine.contract.context import CallContext
from engine.contract.failure import ToolFailure
from engine.dispatch.workspace_folder import folder_of, workspace_failures
from engine.stores.workspace import FolderWorkspace

MOST_FILES = 2_000  # documents of one folder


class WorkspaceIntake:
    """Implements `DocumentIntake` for calls of tools."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def ingest(self, ctx: CallContext, source: str, space: str, owner: str) -> list[IntakeResult]:
        """Take in a file or a folder of the workspace, or a URL.

        Of a folder, every document with a known suffix is taken in. One that cannot be read is reported in its result,
        and the others are taken in all the same.

        Raises:
            ToolFailure: A single document cannot be read, or there is nothing of this name.
        """
        ingestion = DocumentIngestion(self._store, ctx.sandbox)
        by = EntrySource(SourceKind.DOCUMENT, user=ctx.turn.user, agent=ctx.turn.agent, call_id=ctx.call_id)

        async def take(found: FoundDocument) -> IntakeResult:
            done = await ingestion.ingest(found, owner=owner, space=space, source=by, progress=ctx.progress)
            return _result(done)

        if source.startswith(("http://", "https://")):
            return [await take(await _downloaded(ctx, source))]
        folder = folder_of(ctx)
        with workspace_failures():
            paths = await asyncio.to_thread(_documents, folder, source)
        if paths is None:
            return [await take(await _read(folder, source))]
        results = []
        for at, path in enumerate(paths):
            ctx.progress(f"{path} ({at + 1} of {len(paths)})", at / len(paths))
            try:
                results.append(await take(await _read(folder, path)))
            except ToolFailure as error:
                results.append(IntakeResult("", path, path, 0, note=f"Not taken in: {error}"))
        return results


def _documents(folder: FolderWorkspace, source: str) -> list[str] | None:
    """Return the documents of a folder, sorted; None if `source` is a file."""
    if folder.stat(source).kind != "folder":
        return None
    found = sorted(_readable(folder, source))
    if len(found) > MOST_FILES:
        raise ToolFailure(
            f"{source}: it contains {len(found):,} documents, and {MOST_FILES:,} are allowed. Give a folder in it.",
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
        notes.append(f"The same content is known as {document.uri}.")
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

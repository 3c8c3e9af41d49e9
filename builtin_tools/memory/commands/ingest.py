"""The command `knackbox memory ingest`: takes in documents, and watches folders for changes."""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from builtin_tools.documents.formats import SUFFIXES
from builtin_tools.memory.commands.facts import LOCAL, User, reported
from builtin_tools.memory.documents.concurrent_map import concurrent_map
from builtin_tools.memory.documents.ingestion import FoundDocument
from builtin_tools.memory.documents.workspace_intake import WorkspaceIntake
from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.scope import GENERAL, MemoryScope
from engine.app.engine import Engine
from engine.contract.failure import ToolFailure
from engine.contract.turn import Turn
from engine.interfaces.cli.progress_bar import ProgressBar
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, say, wants_json
from engine.interfaces.cli.spinner import shown_later

Row = dict[str, Any]


def ingest(
    ctx: typer.Context,
    paths: Annotated[list[Path], typer.Argument(exists=True, help="Documents, or folders with documents.")],
    *,
    user: User = LOCAL,
    space: Annotated[str, typer.Option("--space", help="The memory space for the passages.")] = GENERAL,
    watch: Annotated[
        bool, typer.Option("--watch", help="Also take in documents when they change, until Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take documents into the memory: PDF, DOCX, PPTX, XLSX, EPUB, HTML, Markdown, text, CSV and JSON.

    Each document is read in a box. Unchanged documents are skipped; the passages of changed documents are replaced.
    """
    bar = ProgressBar("reading documents")

    async def work(engine: Engine) -> list[Row]:
        rows = await _take_in(engine, _documents(paths), user, space, bar)
        if watch:
            for row in rows:
                say(_ingested(row))
            with _until_interrupted() as stop:
                say("watching for changes; end with Ctrl-C.")
                async for changed in _changes(paths, stop):
                    for row in await _take_in(engine, changed, user, space, bar):
                        say(_ingested(row))
            rows = []
        return rows

    with reported(), shown_later(bar):
        rows = with_engine(ctx, work, bar)
    if wants_json(ctx, as_json):
        emit_json(rows)
    else:
        for row in rows:
            emit(_ingested(row))
    if rows and all(row["problem"] for row in rows):
        raise typer.Exit(int(Exit.FAILED))


async def _take_in(engine: Engine, documents: Sequence[Path], user: str, space: str, bar: ProgressBar) -> list[Row]:
    owner = MemoryScope.of(Turn(user=user)).owner(space)
    ingestion = engine.need(WorkspaceIntake).ingestion(engine.sandbox)
    source = EntrySource(SourceKind.DOCUMENT, user=user)
    completed = itertools.count(1)

    async def take_in(path: Path) -> Row:
        row: Row = {"path": str(path), "id": "", "status": "", "passages": 0, "notes": [], "problem": ""}
        try:
            found = FoundDocument(str(path), await asyncio.to_thread(path.read_bytes))
            done = await ingestion.ingest(found, owner=owner, space=space, source=source)
        except ToolFailure as error:
            row["problem"] = str(error)
        except OSError as error:
            row["problem"] = f"{path}: cannot be read ({error.strerror})."
        else:
            notes = list(done.notes)
            row |= {"id": done.document.id, "status": done.status.value, "passages": done.passages, "notes": notes}
        bar.count(next(completed), len(documents))
        return row

    bar.count(0, len(documents))
    return await concurrent_map(documents, take_in)


def _documents(paths: Sequence[Path]) -> list[Path]:
    """Return the documents at the paths, including all documents in folders, in order."""
    found: list[Path] = []
    for path in paths:
        whole = path.absolute()
        inside = (each for each in sorted(whole.rglob("*")) if each.is_file() and each.suffix.lower() in SUFFIXES)
        found += inside if whole.is_dir() else [whole]
    return list(dict.fromkeys(found))


@contextmanager
def _until_interrupted() -> Iterator[asyncio.Event]:
    """Yield an event that Ctrl-C sets, so that the current documents are still stored. A second Ctrl-C cancels them."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:  # as in the background jobs of a script
        yield stop
        return

    def restore() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)

    def interrupt() -> None:
        restore()
        stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield stop
    finally:
        restore()


async def _changes(paths: Sequence[Path], stop: asyncio.Event) -> AsyncIterator[list[Path]]:
    """Yield the documents that were added or changed, as the operating system reports them, until `stop` is set."""
    from watchfiles import Change, awatch  # noqa: PLC0415 -- only for --watch

    async for changes in awatch(*paths, stop_event=stop):
        changed = {Path(path) for change, path in changes if change is not Change.deleted}
        readable = sorted(path for path in changed if path.suffix.lower() in SUFFIXES and path.is_file())
        if readable:
            yield readable


def _ingested(row: Row) -> str:
    if row["problem"]:
        return f"not taken in: {row['problem']}"
    notes = f" {' '.join(row['notes'])}" if row["notes"] else ""
    count = "1 passage" if row["passages"] == 1 else f"{row['passages']} passages"
    return f"{row['path']}: {row['status'].replace('_', ' ')}, {count}.{notes}"

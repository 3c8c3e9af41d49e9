"""`knackbox bench documents`: reads a folder of documents into a memory, compared with the parser alone."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from bench.documents.bare_parser import PARSERS
from builtin_tools.memory.documents.concurrent_map import concurrent_map
from builtin_tools.memory.documents.ingestion import (
    DocumentIngestion,
    FoundDocument,
    IngestedDocument,
    IngestionStatus,
)
from builtin_tools.memory.entries import EntrySource, KnownDocument, SourceKind
from builtin_tools.memory.store import MemoryStore
from engine.contract.failure import ToolFailure
from engine.stores.clock import SystemClock
from sandbox.namespace.backend import NamespaceSandbox

HELP = "Give a folder with documents (PDF, DOCX, XLSX, HTML, Markdown, text), such as /usr/share/doc."
PAGE = 3_000  # characters that count as a page where the format has none
OWNER, SPACE = "user:bench", "personal:general"
_PARSER = [sys.executable, "-m", "bench.documents.bare_parser"]
_SUFFIXES = frozenset({*PARSERS, ".txt"})
_LEAST, _MOST = 2_000, 32 << 20  # bytes
_BATCH = 8  # documents
_SUMMED = ("pages", "bare", "single", "ours")
_SOURCE = EntrySource(SourceKind.USER, user="bench")


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """Documents of one format, read in three ways.

    Attributes:
        bare: Seconds that the parser alone takes, one document after the other.
        single: Seconds that the memory takes, one document after the other.
        ours: Seconds that the memory takes for the whole batch, as it reads folders: several documents at once.
        wrong: Passages that are not the range of the text that they cite.
    """

    format: str
    documents: int
    pages: float
    passages: int
    bare: float
    single: float
    ours: float
    wrong: int


@dataclass(slots=True)
class TwoMemories:
    """Two memories that store the same documents: one after the other, and several at once."""

    single: DocumentIngestion
    ours: DocumentIngestion
    store: MemoryStore
    refused: int = 0

    async def read(self, paths: Sequence[Path], parser: "subprocess.Popen[bytes]") -> BatchTimes:
        """Read a batch in the three ways, one way after the other."""
        bare = [await asyncio.to_thread(_parse, parser, path) for path in paths]
        began = time.perf_counter()
        for path in paths:
            await _ingest(self.single, path)
        single = time.perf_counter() - began
        began = time.perf_counter()
        results = await concurrent_map(paths, partial(_ingest, self.ours))
        ours = time.perf_counter() - began
        stored = [each for each in results if each is not None and each.status is IngestionStatus.NEW]
        self.refused += results.count(None)
        return BatchTimes(
            paths[0].suffix.lower().removeprefix("."),
            len(stored),
            sum(each.document.data["pages"] or len(each.document.text) / PAGE for each in stored),
            sum(each.passages for each in stored),
            sum(bare),
            single,
            ours,
            sum(_wrong_citations(self.store, each.document) for each in stored),
        )


def batches_in(folder: Path) -> dict[str, list[list[Path]]]:
    """Return the readable documents of a folder by format, in batches, largest first."""
    found = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in _SUFFIXES and path.is_file()]
    sizes = {path: path.stat().st_size for path in found}
    usable = sorted((path for path in found if _LEAST <= sizes[path] <= _MOST), key=lambda path: -sizes[path])
    formats: dict[str, list[Path]] = {}
    for path in usable:
        formats.setdefault(path.suffix.lower(), []).append(path)
    return {name: [own[at : at + _BATCH] for at in range(0, len(own), _BATCH)] for name, own in formats.items()}


def bench(pages: int, console: Console, folder: Path) -> list[dict[str, Any]]:
    """Read about this many pages, with an equal share of each format, by the parser alone and by the memory.

    Returns:
        One row for each format, and one for all.
    """
    batches = batches_in(folder)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("reading documents", total=pages)
        with subprocess.Popen(_PARSER, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parser:
            times, refused = asyncio.run(_read_all(batches, pages, parser, progress, task))
            parser.communicate()
    formats = sorted({each.format for each in times})
    rows = [_row(name, [each for each in times if each.format == name]) for name in formats]
    rows.append(_row("all", times))
    _show(rows, refused, console)
    return [{**row, "refused": refused} if row["format"] == "all" else row for row in rows]


async def _read_all(
    batches: Mapping[str, Sequence[Sequence[Path]]],
    pages: int,
    parser: "subprocess.Popen[bytes]",
    progress: Progress,
    task: TaskID,
) -> tuple[list[BatchTimes], int]:
    found: list[BatchTimes] = []
    with tempfile.TemporaryDirectory(prefix="knackbox-documents-") as home, ExitStack() as stack:
        stores = [MemoryStore.open(Path(home) / f"{name}.db", SystemClock()) for name in ("single", "ours")]
        for store in stores:
            stack.callback(store.close)
        async with NamespaceSandbox() as box:
            single, ours = (DocumentIngestion(store, box) for store in stores)
            memories = TwoMemories(single, ours, stores[1])
            for own in batches.values():
                until = progress.tasks[task].completed + pages / len(batches)
                for batch in own:
                    found.append(await memories.read(batch, parser))
                    progress.update(task, completed=sum(each.pages for each in found))
                    if progress.tasks[task].completed >= until:
                        break
        return found, memories.refused


async def _ingest(ingestion: DocumentIngestion, path: Path) -> IngestedDocument | None:
    """Store a document; return None if it cannot be read."""
    data = await asyncio.to_thread(path.read_bytes)
    try:
        return await ingestion.ingest(FoundDocument(str(path), data), owner=OWNER, space=SPACE, source=_SOURCE)
    except ToolFailure:
        return None


def _parse(parser: "subprocess.Popen[bytes]", path: Path) -> float:
    """Return the seconds that the parser alone takes."""
    if parser.stdin is None or parser.stdout is None:
        raise RuntimeError("The parser has no pipes.")
    parser.stdin.write(f"{path}\n".encode())
    parser.stdin.flush()
    return float(json.loads(parser.stdout.readline())["seconds"])


def _wrong_citations(store: MemoryStore, document: KnownDocument) -> int:
    with store.reading() as memory:
        passages = memory.passages(document.id)
    return sum(document.text[each.source.start : each.source.end] != each.text for each in passages)


def _row(name: str, times: Sequence[BatchTimes]) -> dict[str, Any]:
    pages, bare, single, ours = (sum(getattr(each, field) for each in times) for field in _SUMMED)
    documents = sum(each.documents for each in times)
    return {
        "format": name,
        "documents": documents,
        "pages": round(pages),
        "passages": sum(each.passages for each in times),
        "bare_pages_per_s": round(pages / bare, 1) if bare else None,
        "ours_pages_per_s": round(pages / ours, 1) if ours else None,
        "ratio_of_times": round(ours / bare, 2) if bare else None,
        "ratio_one_at_a_time": round(single / bare, 2) if bare else None,
        "overhead_ms": round(1000 * (single - bare) / documents, 1) if documents else None,
        "wrong_citations": sum(each.wrong for each in times),
    }


def _show(rows: Sequence[dict[str, Any]], refused: int, console: Console) -> None:
    table = Table(
        title="Documents into memory",
        caption=f"{refused} documents could not be read. A page without pages "
        f"in its format: {PAGE} characters. The parser alone runs in one process without a box.",
    )
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="left" if column == "format" else "right")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    console.print(table)

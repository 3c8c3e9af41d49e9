"""`knackbox bench documents`: reads a folder of documents into a memory, compared with the parser alone."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from bench.documents.bare_parser import PARSERS
from builtin_tools.memory.documents.ingestion import DocumentIngestion, FoundDocument
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
_SOURCE = EntrySource(SourceKind.USER, user="bench")


@dataclass(frozen=True, slots=True)
class DocumentTimes:
    """One document, read both ways.

    Attributes:
        bare, ours: Seconds.
        wrong: Passages that are not the range of the text that they cite.
    """

    format: str
    pages: float
    passages: int
    bare: float
    ours: float
    wrong: int


def documents_in(folder: Path) -> list[Path]:
    """Return the readable documents of a folder: large PDF documents first, then the others by size."""
    found = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in _SUFFIXES and path.is_file()]
    sizes = {path: path.stat().st_size for path in found}
    usable = [path for path in found if _LEAST <= sizes[path] <= _MOST]
    return sorted(usable, key=lambda path: (path.suffix.lower() != ".pdf", -sizes[path]))


def bench(pages: int, console: Console, folder: Path) -> list[dict[str, Any]]:
    """Read documents until they have this many pages. Each is read by the parser alone and then by the memory.

    Returns:
        One row for each format, and one for all.
    """
    documents = documents_in(folder)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("reading documents", total=pages)
        with subprocess.Popen(_PARSER, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parser:
            times, refused = asyncio.run(_read_all(documents, pages, parser, progress, task))
            parser.communicate()
    formats = sorted({each.format for each in times})
    rows = [_row(name, [each for each in times if each.format == name]) for name in formats]
    rows.append(_row("all", times))
    _show(rows, refused, console)
    return [{**row, "refused": refused} if row["format"] == "all" else row for row in rows]


async def _read_all(
    documents: Sequence[Path], pages: int, parser: "subprocess.Popen[bytes]", progress: Progress, task: TaskID
) -> tuple[list[DocumentTimes], int]:
    found: list[DocumentTimes] = []
    refused = 0
    with tempfile.TemporaryDirectory(prefix="knackbox-documents-") as home:
        store = MemoryStore.open(Path(home) / "memory.db", SystemClock())
        async with NamespaceSandbox() as box:
            ingestion = DocumentIngestion(store, box)
            for path in documents:
                bare = await asyncio.to_thread(_parse, parser, path)
                data = path.read_bytes()
                began = time.perf_counter()
                try:
                    stored = await ingestion.ingest(
                        FoundDocument(str(path), data), owner=OWNER, space=SPACE, source=_SOURCE
                    )
                except ToolFailure:
                    refused += 1
                    continue
                took = time.perf_counter() - began
                if stored.document.uri != str(path):  # the same bytes were read from another place
                    continue
                count = stored.document.data["pages"] or len(stored.document.text) / PAGE
                wrong = _wrong_citations(store, stored.document)
                name = path.suffix.lower().removeprefix(".")
                found.append(DocumentTimes(name, count, stored.passages, bare, took, wrong))
                progress.update(task, completed=sum(each.pages for each in found))
                if sum(each.pages for each in found) >= pages:
                    break
        store.close()
    return found, refused


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


def _row(name: str, times: Sequence[DocumentTimes]) -> dict[str, Any]:
    pages, bare, ours = (sum(getattr(each, field) for each in times) for field in ("pages", "bare", "ours"))
    return {
        "format": name,
        "documents": len(times),
        "pages": round(pages),
        "passages": sum(each.passages for each in times),
        "bare_pages_per_s": round(pages / bare, 1) if bare else None,
        "ours_pages_per_s": round(pages / ours, 1) if ours else None,
        "ratio_of_times": round(ours / bare, 2) if bare else None,
        "median_overhead_ms": round(median(1000 * (each.ours - each.bare) for each in times), 1) if times else None,
        "wrong_citations": sum(each.wrong for each in times),
    }


def _show(rows: Sequence[dict[str, Any]], refused: int, console: Console) -> None:
    table = Table(
        title="Documents into memory",
        caption=f"{refused} documents could not be read. A page without pages "
        f"in its format: {PAGE} characters. The parser alone runs in a process of its own, without a box.",
    )
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="left" if column == "format" else "right")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    console.print(table)

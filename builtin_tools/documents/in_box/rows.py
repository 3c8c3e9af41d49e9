"""Converts table rows to lines of text such as ``column: value; column: value``."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from builtin_tools.documents.in_box.outline import Outline, UnreadableDocument

MOST_CELL = 200_000  # maximum characters of one cell
_ROWS_AT_ONCE = 10  # rows in one block of text


def add_table(rows: Iterable[Sequence[Any]], outline: Outline) -> None:
    """Add a table. The first non-empty row becomes the column names if it contains only text."""
    lines = (line for line in _lines(rows) if line)
    while block := list(islice(lines, _ROWS_AT_ONCE)):
        outline.add("\n".join(block))


def _lines(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    names: list[str] | None = None
    for row in rows:
        cells = [_text(cell) for cell in row]
        if not any(cells):
            continue
        if names is None:
            names = cells if all(isinstance(cell, str) for cell in row if cell not in (None, "")) else []
            yield " | ".join(cell for cell in cells if cell)
            continue
        yield "; ".join(_named(names, at, cell) for at, cell in enumerate(cells) if cell)


def _named(names: Sequence[str], at: int, cell: str) -> str:
    return f"{names[at]}: {cell}" if at < len(names) and names[at] else cell


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    text = str(cell)
    if len(text) > MOST_CELL:
        raise UnreadableDocument(f"one of its cells has {len(text):,} characters, and {MOST_CELL:,} are allowed.")
    return " ".join(text.split())

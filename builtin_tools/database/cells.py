"""Converts the text form of PostgreSQL's values, for structured outputs and for tables."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

Cell = str | int | float | bool | None

# Object identifiers of types, which never change (pg_type.dat).
BOOL, BYTEA, INT8, INT2, INT4, OID, FLOAT4, FLOAT8 = 16, 17, 20, 21, 23, 26, 700, 701
DATE, TIMESTAMP, TIMESTAMPTZ = 1082, 1114, 1184
INTEGERS = frozenset({INT2, INT4, INT8, OID})
FLOATS = frozenset({FLOAT4, FLOAT8})

CELL_WIDTH = 120  # characters shown of one value in a table
CELL_LENGTH = 2000  # characters of one value in a structured output
TABLE_LENGTH = 10_000  # characters of one table; below the pipeline's cap of 16 KiB


def columns_of(result: "PGresult") -> list[tuple[str, int]]:
    """Return the name and the type (its object identifier) of each column."""
    return [((result.fname(at) or b"").decode("utf-8", "replace"), result.ftype(at)) for at in range(result.nfields)]


def cell_of(data: bytes | None, kind: int) -> Cell:
    """Return a value for a structured output. Types that JSON does not have are texts, and long texts are truncated."""
    if data is None:
        return None
    if kind == BOOL:
        return data == b"t"
    if kind in INTEGERS:
        return int(data)
    if kind in FLOATS and math.isfinite(number := float(data)):
        return number
    text = data.decode("utf-8", "replace")
    return text if len(text) <= CELL_LENGTH else f"{text[:CELL_LENGTH]}… ({len(text):,} characters)"


def one_line(value: Any, width: int = CELL_WIDTH) -> str:
    """Return a value on one line, truncated to `width` characters. Control characters are escaped."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    cut = text[:width]
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)
    return shown if len(text) <= width else f"{shown}…"


def text_table(names: Sequence[str], rows: Sequence[Sequence[Cell]], most: int = TABLE_LENGTH) -> tuple[str, int]:
    """Return a table with aligned columns, and the number of rows that fit into it.

    Args:
        names: The names of the columns.
        rows: The rows.
        most: The largest length of the table in characters.
    """
    cells = [[one_line(value) for value in row] for row in rows]
    heads = [one_line(name, 63) for name in names]
    widths = [max([len(head), *(len(row[at]) for row in cells)]) for at, head in enumerate(heads)]
    right = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(heads))]

    def line(values: Sequence[str]) -> str:
        aligned = (
            value.rjust(width) if flush else value.ljust(width)
            for value, width, flush in zip(values, widths, right, strict=True)
        )
        return " | ".join(aligned).rstrip()

    lines = [line(heads), "-+-".join("-" * width for width in widths)]
    length = sum(map(len, lines))
    shown = 0
    for row in cells:
        text = line(row)
        if length + len(text) + 1 > most and shown:
            break
        lines.append(text)
        length += len(text) + 1
        shown += 1
    return "\n".join(lines)[: most + CELL_WIDTH], shown


def _is_number(value: Cell) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))

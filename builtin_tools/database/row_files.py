"""Writes rows into CSV and Parquet files while they arrive. Memory does not grow with the number of rows."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from builtin_tools.database.cells import BOOL, BYTEA, DATE, FLOATS, INTEGERS, TIMESTAMP, TIMESTAMPTZ
from engine.contract.failure import ToolFailure
from engine.dispatch.refusals import not_configured

if TYPE_CHECKING:
    import pyarrow as pa

Row = Sequence[bytes | None]

_CHUNK = 1 << 20  # bytes that are collected before they are written
_GROUP_BYTES = 16 << 20  # bytes of values in one row group of a Parquet file
_GROUP_ROWS = 100_000
_TO_QUOTE = re.compile(rb'[",\r\n]')


class RowFile(Protocol):
    """A file that rows are added to."""

    @property
    def size(self) -> int:
        """The size in bytes, about as large as the file will be if it is finished now."""
        ...

    def add(self, row: Row) -> None: ...

    def finish(self) -> None:
        """Write what has been collected."""
        ...


def row_file(path: str, stream: BinaryIO, columns: Sequence[tuple[str, int]]) -> RowFile:
    """Return the writer for the format that the ending of the path names.

    Raises:
        ToolFailure: pyarrow is not installed.
    """
    return ParquetFile(stream, columns) if is_parquet(path) else CsvFile(stream, columns)


def is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


class CsvFile:
    """CSV in UTF-8 as PostgreSQL writes it: NULL is an empty field, and an empty text is quoted."""

    def __init__(self, stream: BinaryIO, columns: Sequence[tuple[str, int]]) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._waiting = 0
        self._written = 0
        self.add([name.encode() for name, _ in columns])

    @property
    def size(self) -> int:
        return self._written + self._waiting

    def add(self, row: Row) -> None:
        line = b",".join([b"" if cell is None else _quoted(cell) for cell in row])
        self._lines.append(line)
        self._waiting += len(line) + 1
        if self._waiting >= _CHUNK:
            self.finish()

    def finish(self) -> None:
        if self._lines:
            self._lines.append(b"")
            self._stream.write(b"\n".join(self._lines))
        self._written += self._waiting
        self._lines, self._waiting = [], 0


def _quoted(cell: bytes) -> bytes:
    if cell and not _TO_QUOTE.search(cell):
        return cell
    return b'"%s"' % cell.replace(b'"', b'""')


class ParquetFile:
    """Parquet. Numbers, booleans, dates and times have their types; all others, such as numeric, are texts."""

    def __init__(self, stream: BinaryIO, columns: Sequence[tuple[str, int]]) -> None:
        try:
            import pyarrow as pa  # noqa: PLC0415 -- optional, and it takes half a second to import
            from pyarrow import parquet  # noqa: PLC0415 -- likewise
        except ImportError:
            missing = (
                "Parquet files need pyarrow. A person can run pip install 'knackbox[database]'. Use `.csv` instead."
            )
            raise not_configured(missing) from None
        self._arrow = pa
        self._kinds = [kind for _, kind in columns]
        self._types = [_type_of(kind, pa) for kind in self._kinds]
        names = _distinct([name for name, _ in columns])
        self._schema = pa.schema(list(zip(names, self._types, strict=True)))
        self._stream = stream
        self._writer: Any = parquet.ParquetWriter(stream, self._schema, compression="zstd")
        self._rows: list[Row] = []
        self._waiting = 0

    @property
    def size(self) -> int:
        return self._stream.tell() + self._waiting

    def add(self, row: Row) -> None:
        self._rows.append(row)
        self._waiting += sum(len(cell) for cell in row if cell is not None)
        if self._waiting >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._write()

    def finish(self) -> None:
        self._write()
        self._writer.close()

    def _write(self) -> None:
        if not self._rows:
            return
        columns = zip(*self._rows, strict=True) if self._kinds else ()
        arrays = [
            self._array(list(cells), kind, wanted)
            for cells, kind, wanted in zip(columns, self._kinds, self._types, strict=True)
        ]
        self._writer.write_table(self._arrow.table(arrays, schema=self._schema))
        self._rows, self._waiting = [], 0

    def _array(self, cells: list[bytes | None], kind: int, wanted: "pa.DataType") -> "pa.Array[Any]":
        arrow = self._arrow
        try:
            if kind == BOOL:
                return arrow.array([None if cell is None else cell == b"t" for cell in cells], wanted)
            if kind == BYTEA:
                plain = [None if cell is None else bytes.fromhex(cell[2:].decode("ascii")) for cell in cells]
                return arrow.array(plain, wanted)
            texts = [None if cell is None else cell.decode("utf-8", "replace") for cell in cells]
            return arrow.array(texts, arrow.string()).cast(wanted)
        except (ValueError, OverflowError) as error:  # ArrowInvalid is a ValueError
            said = " ".join(str(error).split())[:200]
            raise ToolFailure(
                f"A value cannot be stored in a Parquet file: {said}. Cast the column to text, or use `.csv`.",
                reason="not_storable",
                may_have_started=False,
            ) from error


def _type_of(kind: int, arrow: Any) -> Any:
    if kind in INTEGERS:
        return arrow.int64()
    if kind in FLOATS:
        return arrow.float64()
    special = {
        BOOL: arrow.bool_(),
        BYTEA: arrow.binary(),
        DATE: arrow.date32(),
        TIMESTAMP: arrow.timestamp("us"),
        TIMESTAMPTZ: arrow.timestamp("us", tz="UTC"),
    }
    return special.get(kind, arrow.string())


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names with a number added to those that occur before, since Parquet readers need distinct names."""
    seen: set[str] = set()
    distinct = []
    for name in names:
        unique, number = name, 1
        while unique in seen:
            number += 1
            unique = f"{name}_{number}"
        seen.add(unique)
        distinct.append(unique)
    return distinct

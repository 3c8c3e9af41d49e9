"""Writes rows into CSV and Parquet files while they arrive. Memory does not grow with the number of rows."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from builtin_tools.database.cells import BOOL, BYTEA, DATE, FLOATS, INTEGERS, TIMESTAMP, TIMESTAMPTZ
from engine.contract.failure import ToolFailure
from engine.dispatch.refusals import not_configured

if TYPE_CHECKING:
    import pyarrow as pa

Row = Sequence[bytes | None]

_CHUNK = 1 << 20  # bytes that are collected before they are written
_GROUP_BYTES = 16 << 20  # bytes of values in one row group of a Parquet file
_GROUP_ROWS = 100_000
_TO_QUOTE = re.compile(rb'["\r\n]')


class RowFile(Protocol):
    """A file that rows are added to.

    Attributes:
        size: The size in bytes, about as large as the file will be if it is finished now.
    """

    size: int

    def add(self, row: Row) -> int:
        """Add a row, and return its approximate size in bytes."""
        ...

    def finish(self) -> None:
        """Write what has been collected."""
        ...

    def abandon(self) -> None:
        """Release the writer of a file that is not needed."""
        ...


def size_of(row: Row) -> int:
    """Return the size of the values of a row in bytes."""
    return sum([len(cell) for cell in row if cell is not None])


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
        self.size = 0
        self._stream = stream
        self._lines: list[bytes] = []
        self._waiting = 0
        self._commas = len(columns) - 1
        self.add([name.encode() for name, _ in columns])

    def add(self, row: Row) -> int:
        line = self._line(row)
        size = len(line) + 1
        self._lines.append(line)
        self.size += size
        self._waiting += size
        if self._waiting >= _CHUNK:
            self.finish()
        return size

    def finish(self) -> None:
        if self._lines:
            self._lines.append(b"")
            self._stream.write(b"\n".join(self._lines))
        self._lines, self._waiting = [], 0

    def abandon(self) -> None:
        self._lines = []

    def _line(self, row: Row) -> bytes:
        if None not in row and b"" not in row:
            plain = b",".join(cast("Sequence[bytes]", row))
            if plain.count(b",") == self._commas and not _TO_QUOTE.search(plain):
                return plain
        return b",".join([b"" if cell is None else _quoted(cell) for cell in row])


def _quoted(cell: bytes) -> bytes:
    if cell and b"," not in cell and not _TO_QUOTE.search(cell):
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
        self.size = 0

    def add(self, row: Row) -> int:
        size = size_of(row)
        self._rows.append(row)
        self._waiting += size
        self.size += size
        if self._waiting >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._write()
        return size

    def finish(self) -> None:
        self._write()
        self._writer.close()
        self.size = self._stream.tell()

    def abandon(self) -> None:
        self._rows = []
        self._writer.close()  # otherwise its destructor writes to a closed file

    def _write(self) -> None:
        if not self._rows:
            return
        columns = zip(*self._rows, strict=True) if self._kinds else ()
        arrays = [
            self._array(list(cells), kind, wanted)
            for cells, kind, wanted in zip(columns, self._kinds, self._types, strict=True)
        ]
        self._writer.write_table(self._arrow.table(arrays, schema=self._schema))
        self._rows, self._waiting, self.size = [], 0, self._stream.tell()

    def _array(self, cells: list[bytes | None], kind: int, wanted: "pa.DataType") -> "pa.Array[Any]":
        arrow = self._arrow
        try:
            if kind == BOOL:
                return arrow.array([None if cell is None else cell == b"t" for cell in cells], wanted)
            if kind == BYTEA:
                plain = [None if cell is None else bytes.fromhex(cell[2:].decode("ascii")) for cell in cells]
                return arrow.array(plain, wanted)
            return arrow.array(cells, arrow.binary()).cast(arrow.string()).cast(wanted)
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

"""`CellHistory`: the cells of one kernel and their results, kept within limits for display and export."""

from collections import deque
from dataclasses import dataclass, field, replace

from sandbox.kernels.spec import Cell

MOST_CELLS = 1000
MOST_CODE = 4 << 20  # characters of all cells
MOST_OUTPUT = 16 << 20  # bytes of all outputs, as text and JSON


@dataclass(slots=True, eq=False)
class CellRecord:
    """One cell of a history.

    Attributes:
        number: The number of the cell, starting at 1. Numbering continues when the process of the kernel is restarted.
        cell: The result; None while the cell runs, and if it was cancelled.
        dropped: Whether its outputs were dropped to make room for those of later cells.
    """

    number: int
    code: str
    cell: Cell | None = None
    cancelled: bool = False
    dropped: bool = False


@dataclass(slots=True)
class CellHistory:
    """The latest cells of a kernel.

    Attributes:
        records: The cells that are kept, oldest first.
        count: The number of cells that have been added, including those that were dropped.
        cut: The number of cells that were dropped, oldest first.
    """

    records: deque[CellRecord] = field(default_factory=deque)
    count: int = 0
    cut: int = 0
    _code_size: int = 0
    _output_size: int = 0

    def begin(self, code: str) -> CellRecord:
        """Add a cell that is about to run. Drops the oldest cells when there are too many."""
        self.count += 1
        record = CellRecord(self.count, code)
        self.records.append(record)
        self._code_size += len(code)
        while len(self.records) > MOST_CELLS or (len(self.records) > 1 and self._code_size > MOST_CODE):
            self.forget(self.records[0])
            self.cut += 1
        return record

    def end(self, record: CellRecord, cell: Cell) -> None:
        """Add the result of a cell. Drops the outputs of the oldest cells when there are too many."""
        record.cell = cell
        if record not in self.records:
            return
        self._output_size += cell.kept_bytes
        if self._output_size > MOST_OUTPUT:
            self._drop_outputs()

    def forget(self, record: CellRecord) -> None:
        """Remove a cell, such as one that was not run."""
        if record in self.records:
            self.records.remove(record)
            self._code_size -= len(record.code)
            self._output_size -= record.cell.kept_bytes if record.cell is not None else 0

    def copy(self) -> "CellHistory":
        """Return a copy of the present state, for use in another thread."""
        return replace(self, records=deque(replace(each) for each in self.records))

    def _drop_outputs(self) -> None:
        for record in self.records:
            if self._output_size <= MOST_OUTPUT:
                return
            if record.cell is not None and record.cell.kept_bytes:
                self._output_size -= record.cell.kept_bytes
                record.cell = replace(record.cell, outputs=(), kept_bytes=0)
                record.dropped = True

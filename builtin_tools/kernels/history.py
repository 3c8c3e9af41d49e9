"""The cells of one kernel and what came of them, kept within a bound for whoever wants to see or export them."""

import json
from collections import deque
from dataclasses import dataclass, field, replace

from sandbox.kernels.spec import Cell, Output

MOST_CELLS = 1000
MOST_CODE = 4 << 20  # characters of all cells
MOST_OUTPUT = 16 << 20  # bytes of all outputs, as text and JSON


@dataclass(slots=True, eq=False)
class CellRecord:
    """One cell. number: in the life of this name. cell: None while it runs, and of one that was cancelled.

    dropped: its outputs were let go for those of later cells.
    """

    number: int
    code: str
    cell: Cell | None = None
    cancelled: bool = False
    dropped: bool = False


@dataclass(slots=True)
class History:
    """cut: cells let go, the oldest first. stopped: the kernel was stopped; the next cell begins a new history."""

    entries: deque[CellRecord] = field(default_factory=deque)
    count: int = 0
    cut: int = 0
    stopped: bool = False

    def begin(self, code: str) -> CellRecord:
        self.count += 1
        entry = CellRecord(self.count, code)
        self.entries.append(entry)
        while len(self.entries) > MOST_CELLS or (
            len(self.entries) > 1 and sum(len(each.code) for each in self.entries) > MOST_CODE
        ):
            self.entries.popleft()
            self.cut += 1
        return entry

    def forget(self, entry: CellRecord) -> None:
        """A cell that was not run."""
        if entry in self.entries:
            self.entries.remove(entry)

    def copy(self) -> "History":
        """As it is now, for another thread."""
        return replace(self, entries=deque(replace(each) for each in self.entries))

    def end(self, entry: CellRecord, cell: Cell) -> None:
        """Also lets go of the outputs of the oldest cells when there are too many."""
        entry.cell = cell
        sizes = [(each, sum(map(size_of, each.cell.outputs))) for each in self.entries if each.cell]
        total = sum(size for _, size in sizes)
        for each, size in sizes:
            if total <= MOST_OUTPUT:
                break
            if each.cell and size:
                each.cell = replace(each.cell, outputs=())
                each.dropped = True
                total -= size


def size_of(output: Output) -> int:
    return len(output.text) + sum(map(len, output.traceback)) + (len(json.dumps(output.data)) if output.data else 0)

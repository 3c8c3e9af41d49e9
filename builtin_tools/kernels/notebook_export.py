"""Converts the history of a kernel to a notebook (nbformat 4.5)."""

import re
from collections.abc import Iterator
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from sandbox.kernels.cell_history import CellHistory, CellRecord
from sandbox.kernels.spec import Cell, Output

_MEDIA_TYPE = re.compile(r"[a-zA-Z0-9]+/[a-zA-Z0-9.+-]+")
_JSON_TYPE = re.compile(r"application/(.*\+)?json")


def notebook_of(history: CellHistory) -> bytes:
    """Return a valid notebook with all outputs, including pictures.

    Where the kernel lost its state, the notebook says so in a Markdown cell. The metadata contains the number of cells
    and outputs that were dropped from the history.
    """
    cells = [cell for record in history.records for cell in _cells(record)]
    for number, cell in enumerate(cells, 1):
        cell["id"] = f"cell-{number}"
    metadata: dict[str, Any] = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    kept = {"cells_dropped": history.cut, "outputs_dropped": sum(each.dropped for each in history.records)}
    if any(kept.values()):
        metadata["knackbox"] = kept
    notebook = new_notebook(cells=cells, metadata=metadata)
    nbformat.validate(notebook)
    return str(nbformat.writes(notebook)).encode("utf-8", "replace")


def _cells(record: CellRecord) -> Iterator[Any]:
    cell = record.cell
    loss = cell.state_lost if cell is not None else None
    lost = new_markdown_cell(_clean(f"**{loss}**")) if loss is not None else None
    if loss is not None and not loss.in_cell:
        yield lost
    code = new_code_cell(_clean(record.code), execution_count=_count(cell))
    if record.dropped:
        code["metadata"]["knackbox"] = {"outputs_dropped": True}
    elif record.cancelled:
        code["metadata"]["knackbox"] = {"cancelled": True}
    if cell is not None:
        code["outputs"] = [_output(each, cell) for each in cell.outputs]
    yield code
    if loss is not None and loss.in_cell:
        yield lost


def _output(output: Output, cell: Cell) -> Any:
    if output.kind == "stream":
        name = "stderr" if output.name == "stderr" else "stdout"
        return new_output("stream", name=name, text=_clean(output.text))
    if output.kind == "error":
        lines = [_clean(line) for line in output.traceback]
        return new_output("error", ename=_clean(output.name), evalue=_clean(output.text), traceback=lines)
    data = {kind: _valid(value) for kind, value in output.data.items() if _fits(kind, value)}
    if output.kind == "result":
        return new_output("execute_result", data=data, execution_count=_count(cell))
    return new_output("display_data", data=data)


def _count(cell: Cell | None) -> int | None:
    """Return the cell's execution count; None if it is missing or invalid in a notebook."""
    return cell.count if cell is not None and cell.count is not None and cell.count >= 0 else None


def _fits(kind: str, value: object) -> bool:
    if not _MEDIA_TYPE.fullmatch(kind):
        return False
    return isinstance(value, str) or bool(_JSON_TYPE.fullmatch(kind))


def _valid(value: Any) -> Any:
    return _clean(value) if isinstance(value, str) else value


def _clean(text: str) -> str:
    """Replace unpaired surrogates, which cannot be encoded in UTF-8."""
    return text.encode("utf-8", "replace").decode()

"""Notebooks for tests of `knackbox run`, and what a run has written."""

from pathlib import Path
from typing import Any

import nbformat


def write(path: Path, *sources: str, tags: dict[int, str] | None = None, **metadata: Any) -> str:
    """A notebook of code cells; its path. tags: by the cell's number."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for number, tag in (tags or {}).items():
        cells[number].metadata["tags"] = [tag]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    return str(path)


def outputs(path: Path) -> list[list[Any]]:
    """Of each cell, of a notebook that is valid."""
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    return [cell.outputs for cell in notebook.cells]

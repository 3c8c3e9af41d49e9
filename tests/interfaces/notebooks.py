"""Write notebooks for tests of `knackbox run`, and read their outputs."""

from pathlib import Path
from typing import Any

import nbformat


def write(path: Path, *sources: str, tags: dict[int, str] | None = None, **metadata: Any) -> str:
    """Write a notebook of code cells and return its path. `tags` are by the index of the cell."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for number, tag in (tags or {}).items():
        cells[number].metadata["tags"] = [tag]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    return str(path)


def outputs(path: Path) -> list[list[Any]]:
    """Return the outputs of each cell of a notebook, after validating it."""
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    return [cell.outputs for cell in notebook.cells]

"""Reads Word documents (DOCX) with python-docx."""

import re
from typing import Any

from docx import Document
from docx.table import Table

from builtin_tools.documents.in_box.archives import checked_archive
from builtin_tools.documents.in_box.outline import Outline

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)


def read(path: str, outline: Outline) -> None:
    """Read a Word document: its paragraphs, headings and tables, in order."""
    checked_archive(path).close()
    document = Document(path)
    outline.title = document.core_properties.title or ""
    for block in document.iter_inner_content():
        if isinstance(block, Table):
            outline.add("\n".join(_rows(block)))
            continue
        style = block.style.name if block.style is not None else ""
        heading = _HEADING.match(style or "")
        if style == "Title":
            outline.title = outline.title or block.text
            outline.heading(block.text, 1)
        elif heading:
            outline.heading(block.text, int(heading[1]))
        else:
            outline.add(block.text)


def _rows(table: Table) -> list[str]:
    """Return a line for each row. Each merged cell is shown once, although python-docx repeats it."""
    lines = []
    for row in table.rows:
        cells: dict[Any, str] = {cell._tc: " ".join(cell.text.split()) for cell in row.cells}  # noqa: SLF001 -- identity
        lines.append(" | ".join(cells.values()))
    return lines

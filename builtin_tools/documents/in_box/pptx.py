"""Reads presentations (PPTX) with python-pptx. Each slide is a page."""

from collections.abc import Iterable, Iterator
from typing import Any

from pptx import Presentation

from builtin_tools.documents.in_box.archives import checked_archive
from builtin_tools.documents.in_box.outline import Outline


def read(path: str, outline: Outline) -> None:
    """Read a presentation: titles, texts, tables and speaker notes of its slides."""
    checked_archive(path).close()
    presentation = Presentation(path)
    outline.title = presentation.core_properties.title or ""
    for slide in presentation.slides:
        outline.page()
        title = slide.shapes.title
        if title is not None:
            outline.heading(title.text_frame.text, 1)
        for text in _texts(shape for shape in slide.shapes if title is None or shape.shape_id != title.shape_id):
            outline.add(text)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            outline.add(slide.notes_slide.notes_text_frame.text)


def _texts(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _texts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            rows = shape.table.rows
            yield "\n".join(" | ".join(" ".join(cell.text.split()) for cell in row.cells) for row in rows)

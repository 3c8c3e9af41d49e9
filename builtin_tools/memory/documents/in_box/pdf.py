"""Reads PDF documents with PDFium (pypdfium2)."""

import pypdfium2
from pypdfium2 import PdfDocument, PdfiumError

from builtin_tools.memory.documents.in_box.outline import Outline, UnreadableDocument

MOST_PAGES = 5_000
_FEW_CHARACTERS = 16  # a page with fewer is assumed to be a picture
_DEEPEST_BOOKMARK = 6
_ENCRYPTED = pypdfium2.raw.FPDF_ERR_PASSWORD


def read(path: str, outline: Outline) -> None:
    """Read a PDF document."""
    try:
        document = PdfDocument(path)
    except PdfiumError as error:
        if getattr(error, "err_code", None) == _ENCRYPTED:
            raise UnreadableDocument("it is protected by a password. Save it without one.") from error
        raise UnreadableDocument(f"it is damaged or not a PDF document ({error}).") from error
    count = len(document)
    if count > MOST_PAGES:
        raise UnreadableDocument(f"it has {count:,} pages, and {MOST_PAGES:,} are allowed. Split it.")
    outline.title = document.get_metadata_value("Title")
    starts: list[int] = []
    empty = 0
    for number in range(count):
        outline.page()
        starts.append(outline.length + (2 if outline.length else 0))
        text = _text(document, number)
        empty += len(text.strip()) < _FEW_CHARACTERS
        outline.add(text)
    for bookmark in document.get_toc(max_depth=_DEEPEST_BOOKMARK):
        place = bookmark.get_dest()
        index = place.get_index() if place is not None else None
        if index is not None and 0 <= index < count:
            outline.mark_heading(starts[index], bookmark.level + 1, bookmark.get_title())
    if empty == count:
        raise UnreadableDocument(
            "it has no text, only pictures (a scan). Run it through text recognition (OCR) first, for example with "
            "`ocrmypdf`."
        )
    if empty:
        outline.notes.append(f"{empty} of {count} pages have no text. They may be pictures.")


def _text(document: PdfDocument, number: int) -> str:
    page = document[number]
    try:
        text_page = page.get_textpage()
        try:
            found: str = text_page.get_text_bounded()
            return found
        finally:
            text_page.close()
    except PdfiumError:  # one damaged page does not make the others unreadable
        return ""
    finally:
        page.close()

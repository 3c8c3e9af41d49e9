"""Reads PDF documents with PDFium (pypdfium2)."""

import pypdfium2
from pypdfium2 import PdfDocument, PdfiumError

from builtin_tools.documents.in_box.outline import Outline, UnreadableDocument
from builtin_tools.documents.in_box.pdf_visibility import VisibleText
from builtin_tools.documents.in_box.recognition import TextRecognition

MOST_PAGES = 5_000
_FEW_CHARACTERS = 16  # a page with fewer is assumed to be a picture
_DEEPEST_BOOKMARK = 6
_ENCRYPTED = pypdfium2.raw.FPDF_ERR_PASSWORD


def read(path: str, outline: Outline, ocr: str = "") -> None:
    """Read a PDF document.

    Args:
        path: The path of the document.
        outline: Receives the text.
        ocr: The languages in which the text of scanned pages is recognized (see `TextRecognition`); "" for none.
    """
    document = open_document(path)
    count = len(document)
    outline.title = document.get_metadata_value("Title")
    recognition, visible = TextRecognition(ocr), VisibleText()
    starts: list[int] = []
    empty = 0
    for number in range(count):
        outline.page()
        starts.append(outline.length + (2 if outline.length else 0))
        text = _text(document, number, visible, recognition)
        empty += len(text.strip()) < _FEW_CHARACTERS
        outline.add(text)
    for bookmark in document.get_toc(max_depth=_DEEPEST_BOOKMARK):
        place = bookmark.get_dest()
        index = place.get_index() if place is not None else None
        if index is not None and 0 <= index < count:
            outline.mark_heading(starts[index], bookmark.level + 1, bookmark.get_title())
    outline.notes += visible.notes
    if empty == count and visible.removed:
        raise UnreadableDocument("it has no text that a reader would see.")
    _judge(outline, recognition, empty, count)


def open_document(path: str) -> PdfDocument:
    """Open a PDF document.

    Raises:
        UnreadableDocument: It is damaged, needs a password, or has too many pages.
    """
    try:
        document = PdfDocument(path)
    except PdfiumError as error:
        if getattr(error, "err_code", None) == _ENCRYPTED:
            raise UnreadableDocument("it is protected by a password. Save it without one.") from error
        raise UnreadableDocument(f"it is damaged or not a PDF document ({error}).") from error
    if len(document) > MOST_PAGES:
        raise UnreadableDocument(f"it has {len(document):,} pages, and {MOST_PAGES:,} are allowed. Split it.")
    return document


def _judge(outline: Outline, recognition: TextRecognition, empty: int, count: int) -> None:
    """Note what is missing from the text.

    Raises:
        UnreadableDocument: No page has text.
    """
    if empty == count:
        remedy = (
            "No text was recognized in them."
            if recognition.languages
            else "Set `ocr` in [packs.memory] to recognize text with tesseract, or use a program such as `ocrmypdf`."
        )
        raise UnreadableDocument(f"it has no text, only pictures (a scan). {remedy}")
    if recognition.pages:
        outline.notes.append(f"{recognition.pages} of {count} pages are scans. Their text was recognized by OCR.")
    if recognition.skipped:
        outline.notes.append(f"Pages whose text was not recognized because time ran out: {recognition.skipped}.")
    if empty:
        outline.notes.append(f"{empty} of {count} pages have no text. They may be pictures.")


def _text(document: PdfDocument, number: int, visible: VisibleText, recognition: TextRecognition) -> str:
    page = document[number]
    try:
        found = visible.text(page)
        return found if len(found.strip()) >= _FEW_CHARACTERS else recognition.text(page) or found
    except PdfiumError:  # one damaged page does not make the others unreadable
        return ""
    finally:
        page.close()

"""Renders single pages of PDF documents as PNG pictures, and reads the text layers of pages.

The results are written to ``pages.json`` and ``page-<number>.png``, because they may be too large to return.
"""

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pypdfium2 import PdfBitmap, PdfDocument, PdfiumError, PdfPage

from builtin_tools.documents.in_box.outline import UnreadableDocument
from builtin_tools.documents.in_box.pdf import open_document
from builtin_tools.documents.in_box.pdf_visibility import VisibleText

OUTPUT = "pages.json"
MOST_TEXT = 8_000  # characters of one page
MOST_TEXTS = 2_000_000  # characters of all pages; ranking them takes ten seconds
MOST_POINTS = 14_400  # the longest side of a page: ISO 32000-1, Annex C.2
_SMALLEST_SIDE = 200  # pixels; below this, smaller pictures are not tried
_SHRINK = 0.75


def read_texts(path: str) -> dict[str, Any]:
    """Read the text layer of every page of a document, each cut to `MOST_TEXT` characters.

    Returns:
        ``{"problem": text}``, where the text is "" if the document was read.
    """
    try:
        texts = _texts(open_document(path))
    except UnreadableDocument as error:
        return {"problem": str(error)}
    _write({"count": len(texts), "texts": texts})
    return {"problem": ""}


def render(path: str, numbers: list[int], most_pages: int, longest_side: int, most_bytes: int) -> dict[str, Any]:
    """Render pages, and read their text layers.

    Args:
        path: The path of the document.
        numbers: The pages, from 1; if empty, the first `most_pages`.
        most_pages: The number of pages to render if `numbers` is empty.
        longest_side: The longest side of a picture, in pixels.
        most_bytes: The size of a picture. Larger ones are rendered again with a lower resolution.

    Returns:
        ``{"problem": text}``, where the text is "" if at least one page was rendered.
    """
    pages: list[dict[str, Any]] = []
    notes: list[str] = []
    visible = VisibleText()
    try:
        document = open_document(path)
        count = len(document)
        for number in _existing(numbers, count) or range(1, min(count, most_pages) + 1):
            try:
                picture = _picture(document, number, longest_side, most_bytes)
            except UnreadableDocument as error:
                notes.append(str(error))
                continue
            Path(f"page-{number}.png").write_bytes(picture)
            pages.append({"number": number, "text": _text_of(document, number, visible)})
    except UnreadableDocument as error:
        return {"problem": str(error)}
    if not pages:
        return {"problem": " ".join(notes)[:900] or "it has no pages."}
    _write({"count": count, "pages": pages, "notes": [*notes, *visible.notes]})
    return {"problem": ""}


def _texts(document: PdfDocument) -> list[str]:
    """Return the text layer of every page.

    Raises:
        UnreadableDocument: They are too long in total.
    """
    visible = VisibleText()
    texts: list[str] = []
    total = 0
    for number in range(1, len(document) + 1):
        texts.append(_text_of(document, number, visible))
        total += len(texts[-1])
        if total > MOST_TEXTS:
            raise UnreadableDocument(
                f"its text has more than {MOST_TEXTS:,} characters, which is too much to search. Select the pages by "
                "number, or split it."
            )
    return texts


def _existing(numbers: Iterable[int], count: int) -> list[int]:
    """Return the numbers.

    Raises:
        UnreadableDocument: The document has fewer pages.
    """
    chosen = list(numbers)
    missing = [str(number) for number in chosen if not 1 <= number <= count]
    if missing:
        raise UnreadableDocument(f"it has {count:,} pages, so these do not exist: {', '.join(missing)}.")
    return chosen


def _text_of(document: PdfDocument, number: int, visible: VisibleText) -> str:
    """Return the visible text of a page, cut to `MOST_TEXT` characters; "" if the page is damaged."""
    try:
        page = document[number - 1]
    except PdfiumError:
        return ""
    try:
        return visible.text(page)[:MOST_TEXT]
    except PdfiumError:
        return ""
    finally:
        page.close()


def _picture(document: PdfDocument, number: int, longest_side: int, most_bytes: int) -> bytes:
    """Render a page as a PNG file.

    Raises:
        UnreadableDocument: The page is damaged, too large, or its picture does not fit into `most_bytes`.
    """
    try:
        page = document[number - 1]
    except PdfiumError as error:
        raise UnreadableDocument(f"page {number} is damaged ({error}).") from error
    try:
        width, height = page.get_size()
        if not (0 < width <= MOST_POINTS and 0 < height <= MOST_POINTS):
            raise UnreadableDocument(
                f"page {number} has a size of {width:,.0f} by {height:,.0f} points, and sides of 1 to {MOST_POINTS:,} "
                "are allowed."
            )
        side = float(longest_side)
        while side >= min(_SMALLEST_SIDE, longest_side):
            picture = _rendered(page, side / max(width, height))
            if len(picture) <= most_bytes:
                return picture
            side *= _SHRINK
    except PdfiumError as error:
        raise UnreadableDocument(f"page {number} cannot be rendered ({error}).") from error
    finally:
        page.close()
    raise UnreadableDocument(f"page {number} cannot be rendered in {most_bytes:,} bytes.")


def _rendered(page: PdfPage, scale: float) -> bytes:
    bitmap = page.render(scale=scale, rev_byteorder=True)  # RGB instead of BGR
    try:
        return _png(bitmap)
    finally:
        bitmap.close()


def _png(bitmap: PdfBitmap) -> bytes:
    """Return a bitmap with three bytes for each pixel as a PNG file (https://www.w3.org/TR/png-3/)."""
    if bitmap.n_channels != 3:  # noqa: PLR2004 -- red, green, blue
        raise UnreadableDocument(f"PDFium rendered a page with {bitmap.n_channels} channels instead of 3.")
    rows, used = memoryview(bitmap.buffer), bitmap.width * 3
    data = b"".join(b"\0" + rows[at * bitmap.stride :][:used] for at in range(bitmap.height))
    header = bitmap.width.to_bytes(4, "big") + bitmap.height.to_bytes(4, "big") + bytes((8, 2, 0, 0, 0))
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(data)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")
        for kind, content in chunks
    )


def _write(found: dict[str, Any]) -> None:
    # ASCII, because a text layer may contain lone surrogates, which UTF-8 cannot encode.
    Path(OUTPUT).write_text(json.dumps(found), encoding="ascii")

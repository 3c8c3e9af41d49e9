"""`TextRecognition`: recognizes the text of scanned pages (OCR) with the program tesseract."""

import math
import os
import subprocess
import time

from pypdfium2 import PdfPage

from builtin_tools.documents.in_box.outline import UnreadableDocument

BUDGET_S = 480.0  # for all pages of a document
_DPI = 300  # the resolution that tesseract's documentation recommends
_POINTS_PER_INCH = 72
_MOST_PIXELS = 25_000_000  # of one page; larger pages are rendered with a lower resolution
_PAGE_S = 120


class TextRecognition:
    """Recognizes text in the pages of one document.

    Attributes:
        languages: Tesseract's names of the languages; "" if recognition is off.
        pages: The number of pages that were recognized.
        skipped: The number of pages for which no time was left.
    """

    def __init__(self, languages: str) -> None:
        """Start the time budget.

        Args:
            languages: Tesseract's names of the languages, such as ``eng+deu``. With "", nothing is recognized.
        """
        self.languages = languages
        self._until = time.monotonic() + BUDGET_S
        self.pages = 0
        self.skipped = 0

    def text(self, page: PdfPage) -> str:
        """Return the text that is recognized in the picture of a page; "" if recognition is off or no time is left.

        Raises:
            UnreadableDocument: Tesseract is not installed, or it failed.
        """
        if not self.languages:
            return ""
        left = self._until - time.monotonic()
        if left <= 0:
            self.skipped += 1
            return ""
        command = ["tesseract", "stdin", "stdout", "-l", self.languages]
        try:
            done = subprocess.run(
                command,
                input=_picture(page),
                capture_output=True,
                timeout=min(left, _PAGE_S),
                check=False,
                env={**os.environ, "OMP_THREAD_LIMIT": "1"},  # more threads make single pages slower
            )
        except FileNotFoundError as error:
            raise UnreadableDocument(
                "it has pages without text, and text recognition is configured, but tesseract is not installed on this "
                "machine. Install it (Debian: apt install tesseract-ocr), or remove `ocr` from [packs.memory]."
            ) from error
        except subprocess.TimeoutExpired:
            self.skipped += 1
            return ""
        if done.returncode:
            detail = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
            raise UnreadableDocument(f"tesseract could not recognize its text ({detail}).")
        self.pages += 1
        return done.stdout.decode("utf-8", "replace").replace("\f", "").strip()


def _picture(page: PdfPage) -> bytes:
    """Render a page in gray, as a PGM file."""
    width, height = page.get_size()
    scale = min(_DPI / _POINTS_PER_INCH, math.sqrt(_MOST_PIXELS / max(1.0, width * height)))
    bitmap = page.render(scale=scale, grayscale=True)
    try:
        rows = memoryview(bitmap.buffer)
        data = b"".join(rows[at * bitmap.stride :][: bitmap.width] for at in range(bitmap.height))
        return b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + data
    finally:
        bitmap.close()

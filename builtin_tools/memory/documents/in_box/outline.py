"""`Outline`: collects the text of a document, with the positions of its pages and headings.

Each format has a module that reads a document and fills an `Outline`.

Everything in this package runs in a box and imports only the standard library and the libraries for the formats.
"""

import re
from typing import Any

MOST_CHARACTERS = 20_000_000  # length of the extracted text
_BLANK_LINES = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[^\S\n]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_GAP = "\n\n"


class UnreadableDocument(Exception):
    """The document cannot be read. The message says why, and what to do."""


class Outline:
    """Collects the blocks of a document in order. Blocks are separated by a blank line.

    Attributes:
        title: The title in the document's metadata; "" if there is none.
        notes: What a person should know about the text, such as that pages have no text.
    """

    def __init__(self) -> None:
        self.title = ""
        self.notes: list[str] = []
        self._blocks: list[str] = []
        self._length = 0
        self._pages: list[int] = []
        self._headings: list[tuple[int, int, str]] = []

    @property
    def length(self) -> int:
        """The number of characters of the text so far."""
        return self._length

    def add(self, text: str) -> None:
        """Add a block. Runs of spaces and of blank lines are shortened, and control characters removed."""
        text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
        self._append(_BLANK_LINES.sub(_GAP, "\n".join(_SPACES.sub(" ", line).strip() for line in text.split("\n"))))

    def add_unchanged(self, text: str) -> None:
        """Add a block whose lines must stay as they are. Only control characters are removed."""
        self._append(_CONTROL.sub("", text))

    def heading(self, text: str, level: int) -> None:
        """Add a heading.

        Args:
            text: The heading.
            level: 1 for the highest.
        """
        text = " ".join(text.split())
        if text:
            start = self._length + (len(_GAP) if self._blocks else 0)
            self.add(text)
            self.mark_heading(start, level, text)

    def mark_heading(self, start: int, level: int, text: str) -> None:
        """Record a heading at an offset of the text, without adding any text."""
        self._headings.append((start, level, " ".join(_CONTROL.sub("", text).split())[:300]))

    def page(self) -> None:
        """Start a new page: the next block will be its first."""
        self._pages.append(self._length + (len(_GAP) if self._blocks else 0))

    def result(self) -> dict[str, Any]:
        """Return text, title, page offsets, headings as [offset, level, text], and notes as JSON values."""
        text = _GAP.join(self._blocks)
        return {
            "text": text,
            "title": " ".join(_CONTROL.sub("", self.title).split())[:300],
            "pages": [min(start, len(text)) for start in self._pages],
            "headings": sorted(heading for heading in self._headings if heading[0] < len(text)),
            "notes": self.notes,
        }

    def _append(self, block: str) -> None:
        block = block.strip("\n")
        if not block.strip():
            return
        self._length += len(block) + (len(_GAP) if self._blocks else 0)
        if self._length > MOST_CHARACTERS:
            raise UnreadableDocument(
                f"its text has more than {MOST_CHARACTERS:,} characters. Split it into several documents."
            )
        self._blocks.append(block)

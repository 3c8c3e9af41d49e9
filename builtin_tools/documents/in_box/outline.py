"""`Outline`: collects the text of a document, with the positions of its pages and headings.

Each format has a module that reads a document and fills an `Outline`.

Everything in this package runs in a box and imports only the standard library and the libraries for the formats.
"""

import re
from typing import Any

from builtin_tools.documents.in_box.visible_text import visible

MOST_CHARACTERS = 20_000_000  # length of the extracted text
_BLANK_LINES = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[^\S\n]+")
_GAP = "\n\n"


class UnreadableDocument(Exception):
    """The document cannot be read. The message says why, and what to do."""


class Outline:
    """Collects the blocks of a document in order. Blocks are separated by a blank line.

    Attributes:
        title: The title in the document's metadata; "" if there is none.
        author, date: What a page of the web states about itself; the date as YYYY-MM-DD.
        links: The absolute URLs of a page of the web, and their texts.
        notes: What a person should know about the text, such as that pages have no text.
    """

    def __init__(self) -> None:
        self.title = ""
        self.author = ""
        self.date = ""
        self.links: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self._blocks: list[str] = []
        self._length = 0
        self._pages: list[int] = []
        self._headings: list[tuple[int, int, str]] = []
        self._invisible = 0

    @property
    def length(self) -> int:
        """The number of characters of the text so far."""
        return self._length

    @property
    def text(self) -> str:
        """The text so far."""
        return _GAP.join(self._blocks)

    def add(self, text: str) -> None:
        """Add a block. Runs of spaces and of blank lines are shortened, and invisible characters removed."""
        text = self._visible(text)
        self._append(_BLANK_LINES.sub(_GAP, "\n".join(_SPACES.sub(" ", line).strip() for line in text.split("\n"))))

    def add_unchanged(self, text: str) -> None:
        """Add a block whose lines must stay as they are. Only invisible characters are removed."""
        self._append(self._visible(text))

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
        self._headings.append((start, level, _line(text)))

    def page(self) -> None:
        """Start a new page: the next block will be its first."""
        self._pages.append(self._length + (len(_GAP) if self._blocks else 0))

    def result(self) -> dict[str, Any]:
        """Return text, title, page offsets, headings as [offset, level, text], notes and the rest as JSON values."""
        text = self.text
        invisible = [f"{self._invisible:,} invisible characters were removed."] if self._invisible else []
        return {
            "text": text,
            "title": _line(self.title),
            "author": _line(self.author),
            "date": self.date,
            "links": self.links,
            "pages": [min(start, len(text)) for start in self._pages],
            "headings": sorted(heading for heading in self._headings if heading[0] < len(text)),
            "notes": [*self.notes, *invisible],
        }

    def _visible(self, text: str) -> str:
        text, removed = visible(text)
        self._invisible += removed
        return text

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


def _line(text: str) -> str:
    return " ".join(visible(text)[0].split())[:300]

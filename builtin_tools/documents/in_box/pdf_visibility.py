"""`VisibleText`: reads the text layers of PDF pages without the text that a reader would not see.

A page is rendered with and without its text. Characters that change hardly a pixel are invisible, whatever the cause:
the colour of the background, transparency, a shape or picture above them, a hidden layer. Pages on which only dark text
and thin lines are painted are not rendered.
"""

import time
from collections.abc import Iterable, Iterator
from ctypes import c_void_p, cast
from dataclasses import dataclass

from pypdfium2 import PdfPage, PdfTextPage, raw

from builtin_tools.documents.in_box.pdf_objects import Box, PageObjects, page_objects
from builtin_tools.documents.in_box.pdf_pictures import (
    VISIBLE_SHARE,
    Picture,
    Place,
    changed_pixels,
    is_changed,
    placement,
    rendered,
    rendered_striking,
    rendered_without,
)

BUDGET_S = 30.0  # for the checks of all pages of a document
_SHORTEST_RUN = 3  # characters; fewer hide no instruction, and a dot may be too small for the picture
_INK = 40  # of 255: the difference between print and paper in a scan
_LONG_SIDE = 1_200  # pixels of a picture
_LEAST_SCALE = 0.4  # pixels for each point; the largest page has 100 MB
_MOST_SCALE = 8.0
_MOST_POINTS = 14_400  # the longest side of a page: ISO 32000-1, Annex C.2
_LATIN_ENDS = 0x250  # PDFium has its own shapes for the characters below, if a font is not part of the document


class VisibleText:
    """Reads the text layers of the pages of one document.

    Attributes:
        removed: The number of characters that were removed.
        layers: The number of pages with text that is not painted, but lies over a picture. Programs that recognize the
            text of scans (OCR) write such text.
        unchecked: The number of pages for which no time was left.
    """

    def __init__(self, budget_s: float = BUDGET_S) -> None:
        """Create a reader.

        Args:
            budget_s: The time for rendering, in seconds. It begins now.
        """
        self._until = time.monotonic() + budget_s
        self.removed = 0
        self.layers = 0
        self.unchecked = 0

    @property
    def notes(self) -> list[str]:
        """What a person should know about the text."""
        found = []
        if self.removed:
            found.append(f"{self.removed:,} characters of text that a reader would not see were removed.")
        if self.layers:
            found.append(
                f"{_pages(self.layers)} an invisible text layer over a picture, as scans have. It may differ from the "
                "picture."
            )
        if self.unchecked:
            found.append(f"{_pages(self.unchecked)} text that may be invisible. It was not checked for lack of time.")
        return found

    def text(self, page: PdfPage) -> str:
        """Return the visible text of a page. The page is unchanged afterwards.

        Raises:
            PdfiumError: The page is damaged.
        """
        text_page = page.get_textpage()
        try:
            objects = page_objects(page)
            hidden = self._hidden(page, text_page, objects) if objects.doubtful else frozenset()
            self.removed += len(hidden)
            return _without(page, text_page, hidden) if hidden else str(text_page.get_text_bounded())
        finally:
            text_page.close()

    def _hidden(self, page: PdfPage, text_page: PdfTextPage, objects: PageObjects) -> frozenset[int]:
        """Return the indices of the characters that a reader would not see."""
        width, height = page.get_size()
        if time.monotonic() > self._until or not (0 < width <= _MOST_POINTS and 0 < height <= _MOST_POINTS):
            self.unchecked += 1
            return frozenset()
        check = _Check.of(page, text_page, objects)
        owners = list(_owners(text_page))
        seen = [check.sees(index, owner) for index, owner in enumerate(owners)]
        _settle_words(seen, [owner in objects.pale for owner in owners])
        self.layers += any(each and owner in objects.layer for each, owner in zip(seen, owners, strict=True))
        doubtful = objects.tiny.union(objects.pale)
        alone = (index for index, each in enumerate(seen) if each is False and owners[index] in doubtful)
        return frozenset(alone).union(_invisible_runs(seen))


@dataclass(frozen=True, slots=True)
class _Check:
    """Decides which characters of a page a reader sees.

    Attributes:
        with_all: The page.
        without_pale: The page without the text that may be invisible on white paper.
        without_text: The page without any text.
        striking: The page with its pale text in a striking colour.
        place: Returns the pixels of a box on the page; None if it is outside of the picture.
    """

    text_page: PdfTextPage
    objects: PageObjects
    with_all: Picture
    without_pale: Picture
    without_text: Picture
    striking: Picture
    place: Place

    @classmethod
    def of(cls, page: PdfPage, text_page: PdfTextPage, objects: PageObjects) -> "_Check":
        """Render a page as often as needed."""
        scale = min(max(_LONG_SIDE / max(page.get_size()), _LEAST_SCALE), _MOST_SCALE)
        with_all = rendered(page, scale)
        without_pale = rendered_without(page, scale, objects.pale) if objects.pale else with_all
        without_text = without_pale
        if objects.painted and objects.dark:
            without_text = rendered_without(page, scale, {**objects.pale, **objects.dark})
        striking = rendered_striking(page, scale, objects.pale) if objects.pale else with_all
        return cls(text_page, objects, with_all, without_pale, without_text, striking, placement(page, with_all))

    def sees(self, index: int, owner: int | None) -> bool | None:
        """Return whether a reader sees a character; None for spaces and for what is outside of the page.

        Args:
            index: The index of the character.
            owner: The address of its object; None if PDFium added it.
        """
        code, objects = raw.FPDFText_GetUnicode(self.text_page, index), self.objects
        if owner is None or chr(code).isspace():
            return None
        dark = owner in objects.dark
        has_font = code < _LATIN_ENDS or owner not in objects.substituted  # a reader's program may have it
        if owner in objects.tiny or (dark and not (objects.painted and has_font)):
            return dark
        box = _char_box(self.text_page, index)
        at = self.place(box)
        if at is None:  # PDFium does not give the text outside of the page
            return None
        if owner in objects.layer:
            return _over_print(box, objects.pictures, self.with_all, self.place)
        if owner in objects.pale:
            ink = changed_pixels(self.striking, self.without_pale, at)
            return changed_pixels(self.with_all, self.without_pale, at) > VISIBLE_SHARE * ink
        return is_changed(self.without_pale, self.without_text, at)


def _pages(count: int) -> str:
    return "1 page has" if count == 1 else f"{count:,} pages have"


def _owners(text_page: PdfTextPage) -> Iterator[int | None]:
    """Return for each character the address of its object; None for characters that PDFium added, such as spaces."""
    for index in range(text_page.count_chars()):
        added = raw.FPDFText_IsGenerated(text_page, index) == 1
        found = None if added else raw.FPDFText_GetTextObject(text_page, index)
        yield cast(found, c_void_p).value if found else None


def _char_box(text_page: PdfTextPage, index: int) -> Box:
    left, bottom, right, top = text_page.get_charbox(index)
    return Box(left, bottom, right, top)


def _over_print(box: Box, pictures: Iterable[Box], page: Picture, place: Place) -> bool:
    """Return whether text that is not painted lies over a picture, at a place where something is printed."""
    x, y = (box.left + box.right) / 2, (box.bottom + box.top) / 2
    if not any(each.left <= x <= each.right and each.bottom <= y <= each.top for each in pictures):
        return False
    around = max(box.top - box.bottom, 2.0) / 2  # recognition places words, and characters only roughly
    at = place(Box(box.left - around, box.bottom - around, box.right + around, box.top + around))
    if at is None:
        return False
    rows = [row for row in page.rows(at) if row]
    return max(map(max, rows)) - min(map(min, rows)) >= _INK


def _settle_words(seen: list[bool | None], pale: list[bool]) -> None:
    """Mark all pale characters of a word as invisible if most of them are. Single ones may lie over a line."""
    word: list[int] = []
    for index, each in enumerate([*seen, None]):
        if each is not None and pale[index]:
            word.append(index)
        elif word:
            if 2 * sum(bool(seen[at]) for at in word) < len(word):
                for at in word:
                    seen[at] = False
            word = []


def _invisible_runs(seen: list[bool | None]) -> Iterator[int]:
    """Return the indices of the characters in runs of invisible ones. None stands for spaces, which belong to both."""
    run: list[int] = []
    for index, each in enumerate([*seen, True]):
        if each is False:
            run.append(index)
        elif each:
            if len(run) >= _SHORTEST_RUN:
                yield from run
            run = []


def _without(page: PdfPage, text_page: PdfTextPage, hidden: frozenset[int]) -> str:
    """Return the text of a page without some characters, and without those outside of the page."""
    left, bottom, right, top = page.get_bbox()
    units = []
    for index in range(text_page.count_chars()):
        box = _char_box(text_page, index)
        inside = box.left <= right and box.right >= left and box.bottom <= top and box.top >= bottom
        if index not in hidden and (inside or raw.FPDFText_IsGenerated(text_page, index) == 1):
            units.append(chr(raw.FPDFText_GetUnicode(text_page, index)))
    # PDFium may give halves of characters outside of the basic plane.
    return "".join(units).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")

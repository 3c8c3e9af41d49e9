"""Renders pages of PDF documents, with and without some of their text, and compares the pictures."""

import math
from collections.abc import Callable, Iterator
from ctypes import c_double, c_int, c_uint
from dataclasses import dataclass
from itertools import islice
from operator import sub
from typing import Any

from pypdfium2 import PdfiumError, PdfPage, raw

from builtin_tools.documents.in_box.pdf_objects import Box

VISIBLE_SHARE = 0.25  # of a character; white text over thin lines interrupts them, and cannot be read
_FAINT = 15  # of 255: the difference between two colours that a reader does not see, as for HTML (6 %)
_STRIKING = (255, 0, 255)  # a colour that hardly any background has
_FINE = 1024  # parts of a pixel
Pixels = tuple[int, int, int, int]  # left, top, right and bottom
Place = Callable[[Box], Pixels | None]


@dataclass(frozen=True, slots=True)
class Picture:
    """A rendered page: three bytes for each pixel."""

    data: bytes
    width: int
    height: int
    stride: int

    def rows(self, box: Pixels) -> Iterator[bytes]:
        """Return the parts of the rows in a box."""
        left, top, right, bottom = box
        for row in range(top, bottom):
            yield self.data[row * self.stride + 3 * left : row * self.stride + 3 * right]

    def columns(self, box: Pixels) -> Iterator[bytes]:
        """Return the parts of the columns in a box, with one of the three bytes of each pixel after the other."""
        left, top, right, bottom = box
        first, end = top * self.stride, bottom * self.stride
        for column in range(3 * left, 3 * right, 3):
            yield b"".join(self.data[first + column + part : end : self.stride] for part in range(3))


def rendered(page: PdfPage, scale: float) -> Picture:
    """Render a page.

    Args:
        page: The page.
        scale: The number of pixels for each point.

    Raises:
        PdfiumError: PDFium has chosen another format than three bytes for each pixel.
    """
    bitmap = page.render(scale=scale)
    try:
        if bitmap.n_channels != 3:  # noqa: PLR2004 -- red, green, blue
            raise PdfiumError(f"a page was rendered with {bitmap.n_channels} channels instead of 3")
        return Picture(bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride)
    finally:
        bitmap.close()


def rendered_without(page: PdfPage, scale: float, texts: dict[int, Any]) -> Picture:
    """Render a page without some of its text objects, and restore them."""
    modes = [(each, raw.FPDFTextObj_GetTextRenderMode(each)) for each in texts.values()]
    try:
        for each, _ in modes:
            raw.FPDFTextObj_SetTextRenderMode(each, raw.FPDF_TEXTRENDERMODE_INVISIBLE)
        return rendered(page, scale)
    finally:
        for each, mode in modes:
            raw.FPDFTextObj_SetTextRenderMode(each, mode)


def rendered_striking(page: PdfPage, scale: float, texts: dict[int, Any]) -> Picture:
    """Render a page with some of its text objects in a striking colour, and restore them."""
    colours = []
    for each in texts.values():
        fill, stroke = (c_uint(), c_uint(), c_uint(), c_uint()), (c_uint(), c_uint(), c_uint(), c_uint())
        if raw.FPDFPageObj_GetFillColor(each, *fill) and raw.FPDFPageObj_GetStrokeColor(each, *stroke):
            colours.append((each, [part.value for part in fill], [part.value for part in stroke]))
    try:
        for each, fill_parts, stroke_parts in colours:
            raw.FPDFPageObj_SetFillColor(each, *_STRIKING, fill_parts[3])
            raw.FPDFPageObj_SetStrokeColor(each, *_STRIKING, stroke_parts[3])
        return rendered(page, scale)
    finally:
        for each, fill_parts, stroke_parts in colours:
            raw.FPDFPageObj_SetFillColor(each, *fill_parts)
            raw.FPDFPageObj_SetStrokeColor(each, *stroke_parts)


def placement(page: PdfPage, picture: Picture) -> Place:
    """Return the function that gives the pixels of a box on the page; None if it is outside of the picture."""

    def device(x: float, y: float) -> tuple[float, float]:
        right, down = c_int(), c_int()
        raw.FPDF_PageToDevice(
            page, 0, 0, picture.width * _FINE, picture.height * _FINE, 0, c_double(x), c_double(y), right, down
        )
        return right.value / _FINE, down.value / _FINE

    far = 1000.0
    (x0, y0), (x1, y1), (x2, y2) = device(0, 0), device(far, 0), device(0, far)

    def place(box: Box) -> Pixels | None:
        corners = [(x, y) for x in (box.left, box.right) for y in (box.bottom, box.top)]
        across = [x0 + (x1 - x0) * x / far + (x2 - x0) * y / far for x, y in corners]
        down = [y0 + (y1 - y0) * x / far + (y2 - y0) * y / far for x, y in corners]
        left, top = max(0, math.floor(min(across))), max(0, math.floor(min(down)))
        right, bottom = min(picture.width, math.ceil(max(across)) + 1), min(picture.height, math.ceil(max(down)) + 1)
        return (left, top, right, bottom) if left < right and top < bottom else None

    return place


def changed_pixels(first: Picture, second: Picture, at: Pixels) -> int:
    """Return how many pixels are visibly different."""
    changed = 0
    for one, other in zip(first.rows(at), second.rows(at), strict=True):
        if one != other:
            far = [abs(each) >= _FAINT for each in map(sub, one, other)]
            changed += sum(map(any, zip(far[::3], far[1::3], far[2::3], strict=True)))
    return changed


def is_changed(first: Picture, second: Picture, at: Pixels) -> bool:
    """Return whether enough rows and columns are visibly different. This is faster than counting pixels."""
    left, top, right, bottom = at
    for lines, count in ((Picture.rows, bottom - top), (Picture.columns, right - left)):
        needed = int(VISIBLE_SHARE * (count - 2)) + 1  # a box has a margin
        changed = filter(None, map(_is_far, lines(first, at), lines(second, at)))
        if next(islice(changed, needed - 1, None), None) is None:
            return False
    return True


def _is_far(one: bytes, other: bytes) -> bool:
    return one != other and max(map(abs, map(sub, one, other))) >= _FAINT

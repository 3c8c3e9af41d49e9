"""`page_objects`: sorts the objects of a PDF page by whether its text may be invisible."""

import math
from collections.abc import Iterator
from ctypes import addressof, c_float, c_int, c_uint, c_ulong, c_ushort, c_void_p, cast, sizeof
from dataclasses import dataclass, field
from typing import Any

from pypdfium2 import PdfPage, raw

_PALE_TEXT = 160  # of 255: darker text is visible on paper, and on shapes that are paler than `_PALE_SHAPE`
_PALE_SHAPE = 225
_THIN = 3.0  # points; thinner shapes are lines, which neither cover text nor are its background
_SMALL_FONT = 1.5  # points; smaller text cannot be read, as in HTML
_LINES = 250  # a page may have so many lines of readable text, whatever its size in points
_MOST_COMPARED = 100_000  # boxes of text with shapes; on pages with more, every shape may cover text
_DEEPEST = 8  # levels of forms within forms
_NOT_PAINTED = frozenset({raw.FPDF_TEXTRENDERMODE_INVISIBLE, raw.FPDF_TEXTRENDERMODE_CLIP})
_FILLED = frozenset({raw.FPDF_TEXTRENDERMODE_FILL, raw.FPDF_TEXTRENDERMODE_FILL_CLIP})
_OPTIONAL = "OC"  # the mark of a layer that can be hidden: ISO 32000-1, 8.11.3.2
_NAME_UNITS = 8
_MOST_MARKS = 16  # of one object
_Matrix = tuple[float, float, float, float, float, float]
_IDENTITY: _Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on a page, in points."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def narrow(self) -> float:
        """The shorter side."""
        return min(self.right - self.left, self.top - self.bottom)

    def overlaps(self, other: "Box") -> bool:
        """Return whether the boxes have a point in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top


@dataclass(slots=True)
class PageObjects:
    """The objects of a page. Text is sorted by its address.

    Attributes:
        layer: Text that is not painted, as over scans.
        tiny: Text that is too small to read.
        pale: Text that may be invisible on white paper: pale, an outline, transparent, or in a layer that may be off.
        dark: All other text.
        substituted: Text in fonts that are not part of the document.
        pictures: The places of pictures.
        painted: Whether there is anything that may cover dark text or have its colour.
    """

    layer: dict[int, Any] = field(default_factory=dict)
    tiny: set[int] = field(default_factory=set)
    pale: dict[int, Any] = field(default_factory=dict)
    dark: dict[int, Any] = field(default_factory=dict)
    substituted: set[int] = field(default_factory=set)
    pictures: list[Box] = field(default_factory=list)
    painted: bool = False

    @property
    def doubtful(self) -> bool:
        """Whether some text of the page may be invisible."""
        return bool(self.layer or self.tiny or self.pale or (self.painted and self.dark))


def page_objects(page: PdfPage) -> PageObjects:
    """Return the objects of a page, including those in its forms."""
    found = PageObjects()
    smallest = min(_SMALL_FONT, max(page.get_size()) / _LINES)
    lines: list[Box] = []
    compared = 0
    for each, matrix in _walk(page):  # in the order in which they are painted
        match raw.FPDFPageObj_GetType(each):
            case raw.FPDF_PAGEOBJ_TEXT:
                lines.append(_bounds(each, matrix))
                _add_text(found, each, _font_size(each, matrix) < smallest)
            case raw.FPDF_PAGEOBJ_IMAGE:
                found.pictures.append(_bounds(each, matrix))
                found.painted = True
            case raw.FPDF_PAGEOBJ_SHADING:
                found.painted = True
            case raw.FPDF_PAGEOBJ_PATH if not found.painted and _is_filled(each):
                shape = _bounds(each, matrix)
                if shape.narrow < _THIN:
                    continue
                compared += len(lines)
                pale = compared <= _MOST_COMPARED and _paleness(each) >= _PALE_SHAPE
                found.painted = not pale or any(map(shape.overlaps, lines))
    found.painted = found.painted or _has_notes(page)
    return found


def _walk(page: PdfPage) -> Iterator[tuple[Any, _Matrix]]:
    """Return all objects, each with the matrix from its coordinates to those of the page."""
    count = raw.FPDFPage_CountObjects(page)
    todo = [(raw.FPDFPage_GetObject(page, index), _IDENTITY, 1) for index in reversed(range(count))]
    while todo:
        each, matrix, depth = todo.pop()
        yield each, matrix
        if depth < _DEEPEST and raw.FPDFPageObj_GetType(each) == raw.FPDF_PAGEOBJ_FORM:
            inner = _combined(_matrix(each), matrix)
            count = raw.FPDFFormObj_CountObjects(each)
            todo += [(raw.FPDFFormObj_GetObject(each, index), inner, depth + 1) for index in reversed(range(count))]


def _add_text(found: PageObjects, text: Any, is_tiny: bool) -> None:
    address = cast(text, c_void_p).value or addressof(text.contents)
    mode = raw.FPDFTextObj_GetTextRenderMode(text)
    if mode in _NOT_PAINTED:
        found.layer[address] = text
        return
    if is_tiny:
        found.tiny.add(address)
        return
    doubtful = (
        mode not in _FILLED
        or not 0 <= _paleness(text) < _PALE_TEXT
        or raw.FPDFPageObj_HasTransparency(text)
        or _is_optional(text)
    )
    (found.pale if doubtful else found.dark)[address] = text
    if raw.FPDFFont_GetIsEmbedded(raw.FPDFTextObj_GetFont(text)) != 1:
        found.substituted.add(address)


def _paleness(each: Any) -> int:
    """Return the darkest part of the colour of an object, up to 255; -1 if it has no single colour."""
    red, green, blue, opacity = c_uint(), c_uint(), c_uint(), c_uint()
    if not raw.FPDFPageObj_GetFillColor(each, red, green, blue, opacity):
        return -1
    return min(red.value, green.value, blue.value)


def _font_size(text: Any, matrix: _Matrix) -> float:
    """Return the size of a font on the page, in points: the height or, if it is smaller, the width."""
    size = c_float()
    if not raw.FPDFTextObj_GetFontSize(text, size):
        return 0.0
    a, b, c, d, _, _ = _combined(_matrix(text), matrix)
    return abs(size.value) * min(math.hypot(a, b), math.hypot(c, d))


def _is_filled(path: Any) -> bool:
    fill, stroke, width = c_int(), c_int(), c_float()
    if not raw.FPDFPath_GetDrawMode(path, fill, stroke) or fill.value:
        return True
    return bool(stroke.value and raw.FPDFPageObj_GetStrokeWidth(path, width) and width.value >= _THIN)


def _is_optional(text: Any) -> bool:
    return any(_name(raw.FPDFPageObj_GetMark(text, index)) == _OPTIONAL for index in _marks(text))


def _marks(text: Any) -> range:
    return range(min(_MOST_MARKS, raw.FPDFPageObj_CountMarks(text)))


def _name(mark: Any) -> str:
    name, size = (c_ushort * _NAME_UNITS)(), c_ulong()
    if not raw.FPDFPageObjMark_GetName(mark, name, sizeof(name), size):
        return ""  # longer
    return "".join(map(chr, name)).partition("\0")[0]


def _has_notes(page: PdfPage) -> bool:
    """Return whether a page has annotations other than links, which are drawn above the text."""
    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        note = raw.FPDFPage_GetAnnot(page, index)
        kind = raw.FPDFAnnot_GetSubtype(note)
        raw.FPDFPage_CloseAnnot(note)
        if kind != raw.FPDF_ANNOT_LINK:
            return True
    return False


def _matrix(each: Any) -> _Matrix:
    found = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(each, found):
        return _IDENTITY
    return (found.a, found.b, found.c, found.d, found.e, found.f)


def _combined(first: _Matrix, then: _Matrix) -> _Matrix:
    a, b, c, d, e, f = first
    p, q, r, s, t, u = then
    return (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u)


def _bounds(each: Any, matrix: _Matrix) -> Box:
    """Return the place of an object on the page."""
    left, bottom, right, top = c_float(), c_float(), c_float(), c_float()
    if not raw.FPDFPageObj_GetBounds(each, left, bottom, right, top):
        return Box(0.0, 0.0, 0.0, 0.0)
    a, b, c, d, e, f = matrix
    corners = [(x, y) for x in (left.value, right.value) for y in (bottom.value, top.value)]
    across = [a * x + c * y + e for x, y in corners]
    up = [b * x + d * y + f for x, y in corners]
    return Box(min(across), min(up), max(across), max(up))

"""Reads HTML with lxml: visible text in blocks, with headings."""

from pathlib import Path
from typing import Any

from lxml import etree
from lxml import html as lxml_html

from builtin_tools.documents.in_box.outline import Outline, UnreadableDocument

_HIDDEN = frozenset({"script", "style", "noscript", "template", "head", "svg", "math", "iframe", "object", "select"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "details", "dialog", "div", "dl"),
        *("dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "li", "main", "nav"),
        *("ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"),
    )
)
_CELLS = frozenset({"td", "th"})
_DEEPEST = 400  # levels of nested elements


def read(path: str, outline: Outline) -> None:
    """Read an HTML page."""
    add_html(Path(path).read_bytes(), outline)


def add_html(data: bytes, outline: Outline) -> None:
    """Add the visible text of an HTML page."""
    parser = lxml_html.HTMLParser(encoding=_declared_or_utf8(data), remove_comments=True, remove_pis=True)
    try:
        root = lxml_html.document_fromstring(data, parser=parser)
    except etree.ParserError as error:
        raise UnreadableDocument(f"it contains no HTML ({error}).") from error
    if not outline.title:
        outline.title = root.findtext(".//title") or ""
    add_element(root, outline)


def add_element(root: Any, outline: Outline) -> None:
    """Add the visible text of an element of lxml."""
    writer = _Writer(outline)
    writer.walk(root, 0)
    writer.flush()


def _declared_or_utf8(data: bytes) -> str | None:
    """Return ``"utf-8"`` if the bytes are valid UTF-8, otherwise None: the parser then uses the encoding that the page
    declares.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return "utf-8"


class _Writer:
    """Collects inline text until a block ends."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._inline: list[str] = []

    def flush(self, level: int = 0) -> None:
        text = " ".join("".join(self._inline).split())
        self._inline.clear()
        if level:
            self._outline.heading(text, level)
        else:
            self._outline.add(text)

    def walk(self, element: Any, depth: int) -> None:
        if depth > _DEEPEST:
            raise UnreadableDocument(f"its elements are nested more than {_DEEPEST} levels deep.")
        tag = element.tag
        if not isinstance(tag, str) or tag in _HIDDEN or _invisible(element):
            return
        block = tag in _BLOCKS or tag in _HEADINGS
        if block:
            self.flush()
        if tag == "pre":
            self._outline.add_unchanged(element.text_content())
            return
        self._inline.append(element.text or "")
        for child in element:
            self.walk(child, depth + 1)
            self._inline.append(child.tail or "")
        if tag in _CELLS:
            self._inline.append(" | ")
        if block:
            self.flush(_HEADINGS.get(tag, 0))


def _invisible(element: Any) -> bool:
    style = (element.get("style") or "").replace(" ", "").lower()
    hidden = element.get("hidden") is not None or element.get("aria-hidden") == "true"
    return hidden or "display:none" in style or "visibility:hidden" in style

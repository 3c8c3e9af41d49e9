"""Reads a page of the web: its main text, found by trafilatura, what it states about itself, and its links."""

import codecs
import re
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

import trafilatura
from lxml import etree
from lxml import html as lxml_html

from builtin_tools.documents.in_box.html import add_element
from builtin_tools.documents.in_box.invisible import remove_invisible
from builtin_tools.documents.in_box.outline import Outline, UnreadableDocument
from builtin_tools.documents.in_box.visible_text import visible

MOST_LINKS = 500
_MOST_LINK_TEXT = 200
_LITTLE = 250  # characters; a shorter main text may be a notice that trafilatura took for the article
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read(path: str, outline: Outline, url: str = "", charset: str = "") -> None:
    """Read an HTML page.

    Args:
        path: The path of the page.
        outline: Receives the text, title, date, author, links, and notes on what was removed.
        url: The URL of the page, for the URLs of its links.
        charset: The encoding that the server stated; "" for none.
    """
    root = _parsed(Path(path).read_bytes(), charset)
    removed = remove_invisible(root)
    if removed:
        outline.notes.append(f"{removed:,} characters of hidden text were removed.")
    outline.links = _links(root, url)
    whole = Outline()
    add_element(root, whole)
    text = _main(root, outline, url)
    everything = whole.text
    if len(text) < _LITTLE < len(everything) or not text:
        text = everything
        outline.notes.append("The main text was not recognized, so this is all text of the page.")
    outline.add_unchanged(text)


def _parsed(data: bytes, charset: str) -> Any:
    encoding = _encoding(data, charset)
    if encoding is not None:
        data = data.decode(encoding, errors="replace").encode()
    parser = lxml_html.HTMLParser(encoding=None if encoding is None else "utf-8", remove_comments=True, remove_pis=True)
    try:
        return lxml_html.document_fromstring(data, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        raise UnreadableDocument(f"it contains no HTML ({error}).") from error


def _encoding(data: bytes, charset: str) -> str | None:
    """Return the encoding of a page; None for the one that the page itself declares.

    A byte-order mark comes first. Valid UTF-8 is hardly ever anything else, whatever the server states.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    try:
        data.decode()
    except UnicodeDecodeError:
        try:
            return codecs.lookup(charset).name if charset else None
        except (LookupError, ValueError):
            return None
    return "utf-8"


def _main(root: Any, outline: Outline, url: str) -> str:
    """Return the main text, "" if none was found, and fill in the title, author and date."""
    found: Any = trafilatura.bare_extraction(
        root,
        url=url or None,
        with_metadata=True,
        include_comments=False,
        include_tables=True,
        favor_recall=True,
        date_extraction_params={"extensive_search": False, "original_date": True, "url": None},
    )
    outline.title = root.findtext(".//title") or ""
    if found is None:
        return ""
    outline.title = outline.title.strip() or found.title or ""
    outline.author = _line(found.author)
    date = _DATE.match(found.date or "")
    outline.date = date[0] if date else ""
    return (found.text or "").strip()


def _links(root: Any, url: str) -> list[tuple[str, str]]:
    """Return the URLs and texts of the links, each URL once, in the order of the page."""
    base = root.find(".//base[@href]")
    start = urljoin(url, base.get("href")) if base is not None else url
    found: dict[str, str] = {}
    for element in root.iter("a", "area"):
        href = (element.get("href") or "").strip()
        if not href or href.startswith("#"):
            continue
        try:
            target = urldefrag(urljoin(start, href)).url
            scheme = urlsplit(target).scheme
        except ValueError:  # such as an unclosed bracket in a host
            continue
        if scheme in {"http", "https"} and target.isprintable() and target not in found:
            found[target] = _line("".join(element.itertext()))[:_MOST_LINK_TEXT]
            if len(found) == MOST_LINKS:
                break
    return list(found.items())


def _line(text: str | None) -> str:
    return " ".join(visible(text or "")[0].split())

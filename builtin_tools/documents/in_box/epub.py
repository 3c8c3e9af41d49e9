"""Reads electronic books (EPUB): the pages that the package file lists, in reading order."""

import posixpath
import zipfile
from urllib.parse import unquote

from lxml import etree

from builtin_tools.documents.in_box.archives import checked_archive
from builtin_tools.documents.in_box.html import add_html
from builtin_tools.documents.in_box.outline import Outline, UnreadableDocument

_CONTAINER = "META-INF/container.xml"
_NAMES = {
    "c": "urn:oasis:names:tc:opendocument:xmlns:container",
    "o": "http://www.idpf.org/2007/opf",
    "d": "http://purl.org/dc/elements/1.1/",
}
_PAGES = frozenset({"application/xhtml+xml", "text/html"})


def read(path: str, outline: Outline) -> None:
    """Read an electronic book."""
    with checked_archive(path) as archive:
        package = _xml(archive, _CONTAINER).find(".//c:rootfile", _NAMES)
        if package is None:
            raise UnreadableDocument("it is not an EPUB document: it names no package file.")
        place = package.get("full-path", "")
        root = _xml(archive, place)
        outline.title = root.findtext(".//d:title", "", _NAMES)
        items = {item.get("id"): item for item in root.iterfind(".//o:manifest/o:item", _NAMES)}
        for reference in root.iterfind(".//o:spine/o:itemref", _NAMES):
            item = items.get(reference.get("idref"))
            if item is not None and item.get("media-type") in _PAGES:
                name = posixpath.normpath(posixpath.join(posixpath.dirname(place), unquote(item.get("href", ""))))
                add_html(_bytes(archive, name), outline)


def _xml(archive: zipfile.ZipFile, name: str) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
    try:
        return etree.fromstring(_bytes(archive, name), parser)
    except etree.XMLSyntaxError as error:
        raise UnreadableDocument(f"{name} in it is damaged ({error}).") from error


def _bytes(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except (KeyError, zipfile.BadZipFile) as error:
        raise UnreadableDocument(f"it is damaged: {name} is missing or unreadable.") from error

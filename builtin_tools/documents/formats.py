"""Detects the format of a document by its first bytes and its name."""

from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

MEDIA_TYPES = {
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "epub": "application/epub+zip",
    "html": "text/html",
    "markdown": "text/markdown",
    "csv": "text/csv",
    "json": "application/json",
    "text": "text/plain",
}
_BY_SUFFIX = {
    **dict.fromkeys((".htm", ".html", ".xhtml"), "html"),
    **dict.fromkeys((".md", ".markdown"), "markdown"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".txt", ".text", ".rst", ".log", ".org", ".tex"), "text"),
    **{f".{name}": name for name in ("pdf", "docx", "pptx", "xlsx", "epub")},
}
_SNIFFED = 4096  # bytes
_ZIP, _PDF, _OLE = b"PK\x03\x04", b"%PDF-", b"\xd0\xcf\x11\xe0"
_IN_ZIP = {b"word/": "docx", b"ppt/": "pptx", b"xl/": "xlsx", b"application/epub+zip": "epub"}
SUFFIXES = frozenset(_BY_SUFFIX)


class UnknownFormat(ValueError):
    """The format of a document is not supported. The message says what to do."""


def format_of(data: bytes, name: str, media_type: str = "") -> str:
    """Return the format of a document, a key of `MEDIA_TYPES`.

    Args:
        data: The whole document.
        name: The path or URL of the document.
        media_type: The media type that a server stated; "" if unknown.

    Raises:
        UnknownFormat: The format is not supported.
    """
    head = data[:_SNIFFED]
    suffix = PurePosixPath(unquote(urlsplit(name).path) if "://" in name else name).suffix.lower()
    by_name = _BY_SUFFIX.get(suffix, "")
    if _PDF in head[:1024]:
        return "pdf"
    if head.startswith(_ZIP):
        found = next((kind for mark, kind in _IN_ZIP.items() if mark in data), "")
        if found:
            return found
    elif head.startswith(_OLE):
        raise UnknownFormat(
            "it is an old Office document (.doc, .xls or .ppt), or one with a password. Save it as "
            ".docx, .xlsx or .pptx without a password."
        )
    elif b"\0" not in head or head.startswith((b"\xff\xfe", b"\xfe\xff")):
        if by_name and by_name not in {"pdf", "docx", "pptx", "xlsx", "epub"}:
            return by_name
        declared = next((kind for kind, known in MEDIA_TYPES.items() if known == media_type), "")
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
        if declared == "html" or start.startswith((b"<!doctype html", b"<html")):
            return "html"
        return declared if declared in {"markdown", "csv", "json"} else "text"
    raise UnknownFormat(f"its format is not supported. Supported are {', '.join(MEDIA_TYPES)}.")

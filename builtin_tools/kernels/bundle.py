"""Splits a MIME bundle into files, and text that a model reads.

A MIME bundle is one output of a cell in several media types (its forms). Bundles come from untrusted code, so a form
whose data does not match its media type is replaced by a line that says so.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.formats.pictures import BINARY, is_really, size_of

_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "application/pdf": ".pdf",
    "text/html": ".html",
}
# usually the same picture in several formats, so only the first is kept
_PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_TEXTS = ("text/markdown", "text/latex")  # a model can read these
_HTML = "text/html"
_JSON = "application/json"
_TYPE = re.compile(r"[a-z]+/[a-zA-Z0-9.+-]{1,80}")
_BARE = re.compile(r"<[^\n]{1,400}>")  # a name without content: `<Figure size 640x480 with 1 Axes>`
_SHOWN_BYTES = 2 << 10  # maximum size of HTML and JSON in the text; anything longer becomes a file


@dataclass(frozen=True, slots=True)
class File:
    """A file to write.

    Attributes:
        suffix: The suffix of the file name.
        size: Width and height of a picture.
    """

    media_type: str
    suffix: str
    data: bytes
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Forms:
    """The result of splitting a bundle into text and files.

    Attributes:
        text: The text for a model; "" when the files are enough.
        broken: A line for each media type whose data is malformed.
    """

    text: str
    files: tuple[File, ...]
    broken: tuple[str, ...]
    media_types: tuple[str, ...]


def forms_of(data: Mapping[str, Any]) -> Forms:
    """Split a bundle. Never raises an exception, even for malformed bundles.

    If the plain text is missing or only names an object, another small text (Markdown, LaTeX, HTML or JSON) replaces
    it. HTML becomes a file only if there is no other text, because the plain text of a table has the same content.
    """
    known = {kind: value for kind, value in data.items() if isinstance(kind, str) and _TYPE.fullmatch(kind)}
    plain = known.get("text/plain")
    text = plain if isinstance(plain, str) else ""
    bare = not text or bool(_BARE.fullmatch(text))
    shown, rich = _shown(known) if bare else ("", "")
    files, broken = [], []
    for found in _files(known, bare=bare, shown=shown):
        if isinstance(found, File):
            files.append(found)
        else:
            broken.append(found)
    if shown or (files and bare):
        text = rich
    return Forms(text, tuple(files), tuple(broken), tuple(sorted(known)))


def _shown(known: Mapping[str, Any]) -> tuple[str, str]:
    """Return the media type and text of what replaces the plain text (see `forms_of`); both are "" if nothing does."""
    for kind in _TEXTS:
        if isinstance(known.get(kind), str) and known[kind]:
            return kind, known[kind]
    if any(kind in BINARY or kind in _SUFFIXES for kind in known if kind != _HTML):
        return "", ""  # the picture is shown, so no text is needed
    page = known.get(_HTML)
    if isinstance(page, str) and page and len(page.encode("utf-8", "replace")) <= _SHOWN_BYTES:
        return _HTML, page
    if known.get(_JSON) is not None:
        value = _dumped(known[_JSON])
        if value and len(value.encode("utf-8", "replace")) <= _SHOWN_BYTES:
            return _JSON, value
    return "", ""


def _files(known: Mapping[str, Any], *, bare: bool, shown: str) -> Iterator[File | str]:
    """Yield a file for each media type, or a line if its data is malformed. Skip `shown`, which is in the text."""
    picture = next((kind for kind in _PICTURES if kind in known), "")
    for kind, value in sorted(known.items()):
        if kind == shown or (kind == _HTML and not bare) or (kind in _PICTURES and kind != picture):
            continue
        if kind in BINARY:
            yield _binary(kind, value)
        elif kind in _SUFFIXES:
            yield _text(kind, value)
        elif kind.endswith("+json") or (kind == _JSON and bare):
            yield File(kind, ".json", _dumped(value).encode("utf-8", "replace"))


def _binary(kind: str, value: object) -> File | str:
    if not isinstance(value, str):
        return _mismatch(kind)
    try:
        data = base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return _mismatch(kind)
    return File(kind, _SUFFIXES[kind], data, size_of(data, kind)) if is_really(data, kind) else _mismatch(kind)


def _text(kind: str, value: object) -> File | str:
    if not isinstance(value, str):
        return _mismatch(kind)
    if kind == "image/svg+xml" and "<svg" not in value[: 1 << 16]:
        return _mismatch(kind)
    return File(kind, _SUFFIXES[kind], value.encode("utf-8", "replace"))


def _mismatch(kind: str) -> str:
    return f"[{kind}: the data is not of this type and was not kept]"


def _dumped(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""

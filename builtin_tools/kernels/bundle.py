"""A MIME bundle: which of its forms a model reads, and which become files.

It is the word of untrusted code: what is not of the type it should be is left out, with a line that says so.
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
_PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")  # the same one, as a rule: the first is kept
_TEXTS = ("text/markdown", "text/latex")  # which a model reads as they are
_HTML = "text/html"
_JSON = "application/json"
_TYPE = re.compile(r"[a-z]+/[a-zA-Z0-9.+-]{1,80}")
_BARE = re.compile(r"<[^\n]{1,400}>")  # `<Figure size 640x480 with 1 Axes>`: names the object, and says nothing of it
_SHOWN_BYTES = 2 << 10  # of HTML and JSON; more is for a file


@dataclass(frozen=True, slots=True)
class File:
    """What is to be written. suffix: of its name. size: width and height of a picture."""

    media_type: str
    suffix: str
    data: bytes
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Forms:
    """text: what a model reads; "" when the files say all. broken: a line for each form that was not what it said."""

    text: str
    files: tuple[File, ...]
    broken: tuple[str, ...]
    media_types: tuple[str, ...]


def forms_of(data: Mapping[str, Any]) -> Forms:
    """Raises nothing, whatever the bundle holds.

    Where the plain text is missing or only names an object, a small rich form stands in for it. HTML becomes a file
    only where there is no other text: a table's plain text says the same.
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
    """The rich form that a model reads in place of a plain text, and its text; two "" when there is none."""
    for kind in _TEXTS:
        if isinstance(known.get(kind), str) and known[kind]:
            return kind, known[kind]
    if any(kind in BINARY or kind in _SUFFIXES for kind in known if kind != _HTML):
        return "", ""  # a picture says it
    page = known.get(_HTML)
    if isinstance(page, str) and page and len(page.encode("utf-8", "replace")) <= _SHOWN_BYTES:
        return _HTML, page
    if known.get(_JSON) is not None:
        value = _dumped(known[_JSON])
        if value and len(value.encode("utf-8", "replace")) <= _SHOWN_BYTES:
            return _JSON, value
    return "", ""


def _files(known: Mapping[str, Any], *, bare: bool, shown: str) -> Iterator[File | str]:
    """shown: the form that is text already."""
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
        return _lie(kind)
    try:
        data = base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return _lie(kind)
    return File(kind, _SUFFIXES[kind], data, size_of(data, kind)) if is_really(data, kind) else _lie(kind)


def _text(kind: str, value: object) -> File | str:
    if not isinstance(value, str):
        return _lie(kind)
    if kind == "image/svg+xml" and "<svg" not in value[: 1 << 16]:
        return _lie(kind)
    return File(kind, _SUFFIXES[kind], value.encode("utf-8", "replace"))


def _lie(kind: str) -> str:
    return f"[{kind}: what came under this name is not that, and was not kept]"


def _dumped(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""

"""Parses the report that a worker sends about its job. Standard library only.

The report comes from untrusted code: only known fields are copied, after their types are checked.
"""

import json
import re

from sandbox import worker

_MAX_DEPTH = 200  # levels of a nested value; many JSON readers refuse deeper ones
_ENDS_OF_CODE = ("ok", "error", "memory", "disk", "files", "file_size", "processes")
_ERROR_LIMITS = {"type": 200, "message": worker.MAX_ERROR_CHARS, "traceback": 2 * worker.MAX_ERROR_CHARS}
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_report(frame: bytes) -> worker.Message | None:
    """Return the worker's report, copied field by field; None when the frame is not a report."""
    size = worker.HEADER.size
    if len(frame) < size:
        return None
    length, _ = worker.unpack_head(frame[:size])
    try:
        text = frame[size : size + length].decode()
        given = json.loads(text)
        if not isinstance(given, dict) or given.get("end") not in _ENDS_OF_CODE or _too_deep(given.get("value")):
            return None
    except (ValueError, RecursionError, MemoryError):
        return None
    code, error = given.get("exit_code"), given.get("error")
    answer = {"end": given["end"], "exit_code": code if type(code) is int and 0 <= code <= 255 else 1}  # noqa: PLR2004
    answer["value"] = _encodable(given.get("value")) if _SURROGATE_ESCAPE.search(text) else given.get("value")
    if isinstance(error, dict):
        answer["error"] = {key: _text(error.get(key), limit) for key, limit in _ERROR_LIMITS.items()}
    return answer


def _encodable(value: object) -> object:
    """Replace each lone surrogate, which Python's strings can hold and UTF-8 cannot, with U+FFFD."""
    return json.loads(_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)))


def _too_deep(value: object) -> bool:
    """Return whether a value is nested deeper than the limit, checked level by level."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        inner = [item for item in level if isinstance(item, (list, dict))]
        if not inner:
            return False
        level = [each for item in inner for each in (item.values() if isinstance(item, dict) else item)]
    return True


def _text(given: object, limit: int) -> str:
    """Return the string in a form that UTF-8 can encode, cut to the limit; "" for anything but a string."""
    return str(given)[:limit].encode("utf-8", "replace").decode() if isinstance(given, str) else ""

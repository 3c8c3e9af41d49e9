"""Converts a tool's return value to JSON-like output for programs and to text for the model, within limits."""

import logging
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from engine.contract.context import Produced, Workspace

_log = logging.getLogger("knackbox.dispatch")

# The maximum size of a result for the model, in UTF-8 bytes; about 4,000 tokens.
DEFAULT_CAP = 16 << 10
FOLDER = PurePosixPath(".knackbox/outputs")

_NOTICE_BYTES = 400  # bytes reserved for the notice between the head and the tail of a shortened text
_LONGEST_NAME = 100  # characters of a file name; less than common file systems allow

LARGE_NODES = 2_000
LARGE_CHARACTERS = 100_000
MAX_NODES = 200_000  # values in a tool's result; a larger result is not passed on
MAX_CHARACTERS = 32 << 20

_PLAIN = (bool, int, float)
_NOT_FINITE = re.compile(r'"(?:NaN|-?Infinity)"')
TOO_LARGE = (
    f"The result has more than {MAX_NODES:,} values or {MAX_CHARACTERS >> 20} MiB of text and was omitted. "
    "Return less, or write the result to a file in the workspace."
)


def render(returned: Any) -> tuple[Any, str | None, tuple[str, ...]]:
    """Return the output (plain JSON values), the message (or None) and the side effects of a tool's return value.

    This never raises: the tool has run, and its return value must not turn that into a failure. A string is its own
    message; for any other value, the message is the value as JSON. Dataclasses, pydantic models, dates, paths, sets
    and enums become plain values, bytes become base64, and a value without a JSON form becomes its ``repr``.
    """
    if isinstance(returned, Produced):
        output, shown = _plain(returned.value)
        if shown == TOO_LARGE and output is None:
            return None, TOO_LARGE, tuple(map(str, returned.side_effects))
        message = None if returned.message is None else str(returned.message)
        if message and not message.isascii():
            message = _sound(message)
        return output, message, tuple(map(str, returned.side_effects))
    output, text = _plain(returned)
    return output, text, ()


def _plain(value: Any) -> tuple[Any, str]:
    if value is None:
        return None, "null"
    if type(value) is str:
        sound = value if value.isascii() else _sound(value)
        return sound, sound
    if type(value) in _PLAIN and value == value and value not in (float("inf"), float("-inf")):  # noqa: PLR0124 - not NaN
        return value, str(value).lower() if type(value) is bool else repr(value)
    if is_large(value, MAX_NODES, MAX_CHARACTERS):
        return None, TOO_LARGE
    try:
        output = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings", serialize_unknown=True)
        text = output if type(output) is str else to_json(output, inf_nan_mode="strings").decode()
        if type(output) is not str and _NOT_FINITE.search(text):
            output = from_json(text)  # pydantic leaves NaN and infinities unchanged if they are in a set
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        text = _sound(repr(value))
        return text, text
    return output, text


def _sound(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def is_large(value: Any, nodes: int = LARGE_NODES, characters: int = LARGE_CHARACTERS) -> bool:
    """Return whether plain data has more than `nodes` values, or more than `characters` characters of text.

    Data above the default limits may take more than a few milliseconds to convert; this check takes less, because it
    stops counting at the limit. An object that is neither a container nor text counts as one value.
    """
    if isinstance(value, str | bytes):
        return len(value) > characters
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return False
    stack: list[Any] = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, str | bytes):
            characters -= len(each)
        elif isinstance(each, Mapping):
            nodes -= len(each)
            if nodes >= 0:
                stack += each.keys()
                stack += each.values()
        elif isinstance(each, list | tuple | set | frozenset):
            nodes -= len(each)
            if nodes >= 0:
                stack += each
        if nodes < 0 or characters < 0:
            return True
    return False


class OutputCap:
    """Shortens texts longer than `cap` bytes and writes the full text to the workspace."""

    def __init__(self, cap: int = DEFAULT_CAP) -> None:
        if cap < 2 * _NOTICE_BYTES:
            raise ValueError(f"An output cap of {cap} bytes leaves no room for text; use at least {2 * _NOTICE_BYTES}.")
        self._cap = cap

    def fits(self, *texts: str | None) -> bool:
        """Return whether each of the texts is short enough to be passed to the model unchanged."""
        for text in texts:
            if text and len(text) * 4 > self._cap and len(text.encode("utf-8", "replace")) > self._cap:
                return False
        return True

    def cut(self, text: str, call_id: str, workspace: Workspace) -> str:
        """Shorten a text to at most `cap` bytes: its head, a notice, and its tail.

        The full text is written to a file, so this blocks. The notice names the file, or says why writing it failed.
        """
        data = text.encode("utf-8", "replace")
        if len(data) <= self._cap:
            return text
        room = self._cap - _NOTICE_BYTES
        head = data[: room - room // 2].decode("utf-8", "ignore")
        tail = data[-(room // 2) :].decode("utf-8", "ignore")
        dropped = len(data) - len(head.encode()) - len(tail.encode())
        try:
            where = f"the full text ({len(data)} bytes) is in {self._spill(data, call_id, workspace)}"
        except (OSError, ValueError) as error:
            _log.warning("The output of call %s could not be saved: %s", call_id, error)
            where = f"the full text ({len(data)} bytes) could not be saved: {str(error)[:150]}"
        return f"{head}\n[… {dropped} bytes dropped; {where} …]\n{tail}"

    def _spill(self, data: bytes, call_id: str, workspace: Workspace) -> str:
        # Ids come from models and clients, so only letters, digits, - and _ are kept for the file name.
        name = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)[:_LONGEST_NAME] or "call"
        path, number = FOLDER / f"{name}.txt", 1
        # A repeated id must not overwrite a file that an earlier message refers to.
        while (workspace.root / path).exists():
            number += 1
            path = FOLDER / f"{name}-{number}.txt"
        workspace.write(str(path), data)
        return str(path)

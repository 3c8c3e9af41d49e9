"""Converts what a tool returned to JSON-like output for programs and text for the model."""

import re
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from engine.contract.context import Produced
from engine.dispatch.large import MAX_CHARACTERS, MAX_NODES, exceeds

_PLAIN = (bool, int, float)
_NOT_FINITE = re.compile(r'"(?:NaN|-?Infinity)"')
TOO_LARGE = (
    f"The result has more than {MAX_NODES:,} values or {MAX_CHARACTERS >> 20} MiB of text and was left out. "
    "Return less, or write it to a file of the workspace."
)


def render(returned: Any) -> tuple[Any, str | None, tuple[str, ...]]:
    """Return output (plain JSON values), message (None for no message) and side effects.

    Never raises: the tool has run, and its return value must not turn that into a failure. A string is its own message;
    anything else is shown as JSON. Dataclasses, pydantic models, dates, paths, sets and enums become plain values,
    bytes become base64, and a value without a JSON form becomes its ``repr``.
    """
    if isinstance(returned, Produced):
        output, shown = _plain(returned.value)
        if shown == TOO_LARGE and output is None:
            return None, TOO_LARGE, tuple(map(str, returned.side_effects))
        message = None if returned.message is None else _sound(str(returned.message))
        return output, message, tuple(map(str, returned.side_effects))
    output, text = _plain(returned)
    return output, text, ()


def _plain(value: Any) -> tuple[Any, str]:
    if value is None:
        return None, "null"
    if type(value) is str:
        sound = _sound(value)
        return sound, sound
    if type(value) in _PLAIN and value == value and value not in (float("inf"), float("-inf")):  # noqa: PLR0124 - not NaN
        return value, str(value).lower() if type(value) is bool else repr(value)
    if exceeds(value, MAX_NODES, MAX_CHARACTERS):
        return None, TOO_LARGE
    try:
        output = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings", serialize_unknown=True)
        text = output if type(output) is str else to_json(output, inf_nan_mode="strings").decode()
        if type(output) is not str and _NOT_FINITE.search(text):
            output = from_json(text)  # pydantic leaves NaN and the infinities of a set as they are
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        text = _sound(repr(value))
        return text, text
    return output, text


def _sound(text: str) -> str:
    """Replace lone surrogates, which nothing downstream could encode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text

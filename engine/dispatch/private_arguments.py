"""Keeps the values of private arguments (`ToolSpec.private_arguments`) out of logs and away from observers."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from engine.contract.result import ToolCall, ToolResult
from engine.contract.spec import ToolSpec

_QUOTE = 16  # an error that contains this many consecutive characters of a value quotes it
_MOST_CHARACTERS = 100_000  # characters of one value that are compared with an error


def without_private(call: ToolCall, spec: ToolSpec) -> ToolCall:
    """Return the call with a placeholder for the value of each private argument."""
    private = call.arguments.keys() & spec.private_arguments
    if not private:
        return call
    shown = {name: _placeholder(value) if name in private else value for name, value in call.arguments.items()}
    return replace(call, arguments=shown)


def recordable(call: ToolCall, result: ToolResult, spec: ToolSpec) -> tuple[ToolCall, ToolResult]:
    """Return a call and its result as observers may see them.

    Placeholders replace private arguments. The output and the message are removed, since they may repeat what the
    arguments say. An error that quotes a private argument is replaced; its class and reason are kept.
    """
    private = [call.arguments[name] for name in spec.private_arguments if name in call.arguments]
    shown = replace(result, output=None, message=None)
    if result.error and _quotes(result.error, private):
        reason = result.failure.reason if result.failure is not None else "error"
        shown = replace(shown, error=f"{spec.name} failed ({reason}). The message quotes a private argument.")
    return without_private(call, spec), shown


def _placeholder(value: Any) -> str:
    size = len(value) if isinstance(value, str) else len(json.dumps(value, default=repr))
    return f"(private, {size} characters)"


def _quotes(error: str, values: Iterable[Any]) -> bool:
    """Return whether the error contains one of the values, or a part of a long value."""
    seen = {error[at : at + _QUOTE] for at in range(max(1, len(error) - _QUOTE + 1))}
    for text in _texts(values):
        for form in {text, json.dumps(text)[1:-1], repr(text)[1:-1]}:
            short = form[:_MOST_CHARACTERS]
            if len(short) < _QUOTE:
                if short and short in error:
                    return True
            elif any(short[at : at + _QUOTE] in seen for at in range(len(short) - _QUOTE + 1)):
                return True
    return False


def _texts(values: Iterable[Any]) -> Iterator[str]:
    """Yield every text of a JSON value."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from _texts(value.keys())
            yield from _texts(value.values())
        elif isinstance(value, list | tuple):
            yield from _texts(value)
        elif value is not None and not isinstance(value, bool):
            yield str(value)

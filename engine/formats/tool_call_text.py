"""Parses ``<tool_call>{"name": …, "args": …}</tool_call>``, which models without native tool calls write.

Invalid calls are neither guessed at nor dropped. They are answered with an error, so that the model can correct them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OPENS, CLOSES = "<tool_call>", "</tool_call>"
RIGHT_FORM = f'{OPENS}{{"name": "the_tool", "args": {{"argument": "value"}}}}{CLOSES}'
_ARGUMENTS = ("args", "arguments", "parameters")
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class TextCall:
    """One call found in a text.

    Attributes:
        problem: Why it is invalid; "" if it is valid.
        text: The call as it was written.
    """

    name: str
    arguments: Mapping[str, Any]
    text: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The calls in a model's text, and the text without them.

    Attributes:
        calls: The calls in order, including invalid ones.
        display: The text without the calls.
    """

    calls: tuple[TextCall, ...]
    display: str


def parse_tool_calls(text: str) -> ParsedText:
    """Return every call in the text. The last one may lack its end tag, because some models stop before it."""
    calls: list[TextCall] = []
    shown: list[str] = []
    at = 0
    while (start := text.find(OPENS, at)) >= 0:
        shown.append(text[at:start])
        call, at = _one(text, start + len(OPENS))
        calls.append(call)
    shown.append(text[at:])
    display = "\n".join(part.strip() for part in shown if part.strip()) if calls else text
    return ParsedText(tuple(calls), display)


def answer_to(call: TextCall) -> str:
    """Return the error message to send to the model for an invalid call."""
    given = call.text if len(call.text) <= _SHOWN else f"{call.text[:_SHOWN]}…"
    return f"This tool call is invalid, and nothing was run: {call.problem}. Given: {given}\nWrite it as: {RIGHT_FORM}"


def _one(text: str, begin: int) -> tuple[TextCall, int]:
    """Parse the call at `begin`, and return it with the position after it. End tags in JSON strings are ignored."""
    body = text[begin:]
    lead = len(body) - len(body.lstrip())
    try:
        value, length = json.JSONDecoder().raw_decode(body, lead)
    except (ValueError, RecursionError) as error:
        said = error.msg if isinstance(error, json.JSONDecodeError) else "it is nested too deeply"
        return _broken(text, begin, f"it is not JSON ({said})")
    after = begin + length
    rest = text[after:].lstrip()
    if rest and not rest.startswith((CLOSES, OPENS)):
        return _broken(text, begin, f"its JSON object is not followed by {CLOSES}")
    end = len(text) - len(rest) + (len(CLOSES) if rest.startswith(CLOSES) else 0)
    written = text[begin:after].strip()
    return _judged(value, written), end


def _judged(value: Any, written: str) -> TextCall:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return TextCall("", {}, written, 'it has no "name"')
    key = next((key for key in _ARGUMENTS if key in value), None)
    arguments = value[key] if key is not None else {}
    if isinstance(arguments, str):  # as in OpenAI's API
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = None
    if not isinstance(arguments, dict):
        return TextCall(value["name"], {}, written, 'its "args" is not an object')
    return TextCall(value["name"], arguments, written)


def _broken(text: str, begin: int, problem: str) -> tuple[TextCall, int]:
    """Return the invalid call at `begin`, and the position after it.

    The call extends to its end tag; without one, to the next call or the end of the text.
    """
    closes, opens = text.find(CLOSES, begin), text.find(OPENS, begin)
    if closes >= 0 and (opens < 0 or closes < opens):
        return TextCall("", {}, text[begin:closes].strip(), problem), closes + len(CLOSES)
    end = opens if opens >= 0 else len(text)
    return TextCall("", {}, text[begin:end].strip(), problem), end

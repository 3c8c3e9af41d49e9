"""Reads the answers that people write in forms to questions about results (GATE-7).

An answer is a result as JSON, as a Python literal or as plain text: ``"IV"``, ``(1, 2)`` and ``hello`` are accepted.
The name of another check and its operand can take its place: ``raises ValueError``, ``between [1, 2]``,
``unspecified``.
"""

import ast
import json
from typing import Any

from acquired_skills.model.prediction import CHECKS, MOST_CHARS, RAISES, RESULT, UNSPECIFIED, Prediction
from engine.contract.strict_json import JsonError, read_json

HOW = (
    'The result, as in Python or JSON: 4, [1, 2], null. Quote a text that looks like something else: "4". Or: '
    "raises ValueError, between [1, 2], close_to 0.5, length 3, or unspecified for a call that it is not meant for. "
    "Leave it empty if you do not know."
)


def read_answer(text: str) -> dict[str, Any]:
    """Return the checks of a prediction.

    Raises:
        ValueError: It is not an answer. The message says why.
    """
    text = text.strip()
    if len(text) > MOST_CHARS:
        raise ValueError(f"An answer may have {MOST_CHARS:,} characters, and this one has {len(text):,}.")
    check, _, operand = text.partition(" ")
    if text == UNSPECIFIED:
        return _checked({UNSPECIFIED: True})
    if check == RAISES and operand.strip().replace(".", "_").isidentifier():
        return _checked({RAISES: operand.strip()})
    if check in CHECKS and operand:
        try:
            return _checked({check: read_json(operand)})
        except JsonError:  # a text that starts with such a word
            pass
    return _checked({RESULT: read_value(text)})


def read_value(text: str) -> Any:
    """Return a value as plain JSON: JSON, a Python literal (tuples and sets become lists), or else the text itself."""
    try:
        return read_json(text)
    except JsonError:
        pass
    try:
        found = _plain(ast.literal_eval(text))
        json.dumps(found, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return found


def _plain(value: Any) -> Any:
    match value:
        case tuple() | list():
            return [_plain(each) for each in value]
        case set() | frozenset():
            return [_plain(each) for each in sorted(value, key=repr)]
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
    return value


def _checked(checks: dict[str, Any]) -> dict[str, Any]:
    return dict(Prediction.parse({"arguments": {}, **checks}).checks)

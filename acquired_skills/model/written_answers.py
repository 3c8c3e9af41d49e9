"""Parses the answers that people write in forms when they are asked about results (GATE-7).

An answer is a result as JSON, as a Python literal or as plain text: ``"IV"``, ``(1, 2)`` and ``hello`` are accepted.
Instead of a result, it can be the name of another check with its operand, such as ``raises ValueError``,
``between [1, 2]`` or ``unspecified``.
"""

import ast
import json
from typing import Any

from acquired_skills.model.prediction import CHECKS, MOST_CHARS, RAISES, RESULT, UNSPECIFIED, Prediction
from engine.contract.strict_json import JsonError, read_json

HOW = (
    'The result, written as in Python or JSON: 4, [1, 2], null. Quote a string that looks like another value: "4". You '
    "can also write: raises ValueError, between [1, 2], close_to 0.5, length 3, or unspecified if the skill is not "
    "meant for these arguments. Leave the field empty if you do not know."
)


def read_answer(text: str) -> dict[str, Any]:
    """Parse an answer and return the checks of a prediction.

    Raises:
        ValueError: The text is not an answer. The message says why.
    """
    text = text.strip()
    if len(text) > MOST_CHARS:
        raise ValueError(f"This answer has {len(text):,} characters: use at most {MOST_CHARS:,}.")
    check, _, operand = text.partition(" ")
    if text == UNSPECIFIED:
        return _checked({UNSPECIFIED: True})
    if check == RAISES and operand.strip().replace(".", "_").isidentifier():
        return _checked({RAISES: operand.strip()})
    if check in CHECKS and operand:
        try:
            return _checked({check: read_json(operand)})
        except JsonError:  # plain text that begins with the name of a check
            pass
    return _checked({RESULT: read_value(text)})


def read_value(text: str) -> Any:
    """Parse a value and return it as plain JSON.

    The text is JSON or a Python literal, whose tuples and sets become lists. Any other text is returned as a string.
    """
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

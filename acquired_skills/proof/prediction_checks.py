"""Checks whether an answer satisfies a prediction (GATE-1).

The engine compares packed data outside the boxes. Malformed data satisfies no prediction.
"""

import datetime as dt
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from acquired_skills.model.prediction import RAISES, RESULT, UNSPECIFIED, Prediction
from acquired_skills.proof.answers import Data
from acquired_skills.proof.array_values import is_packed_array, plain_value
from acquired_skills.proof.json_calls import as_json

TOLERANCE = 1e-6  # largest relative difference between a float and its prediction
CLOSE = 1e-3  # largest relative difference for the check `close_to`
_EXACT = 2.0**53  # up to this number, floats represent all whole numbers
_ZERO = 1e-12  # a float that is nearer to 0 may be a rounding error, so it equals a predicted 0
_SPAN = TypeAdapter(dt.timedelta)


def satisfies(answer: Data, prediction: Prediction) -> bool:
    """Return whether an answer passes all checks of a prediction."""
    try:
        return all(_CHECKS[name](answer, operand) for name, operand in prediction.checks.items())
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


def equals(value: Any, expected: Any) -> bool:  # noqa: C901, PLR0911, PLR0912 -- one branch per kind
    """Return whether packed data equals a JSON value. Floats may differ by `TOLERANCE`, and sets have no order."""
    match value:
        case bool() | None:
            return value is expected
        case int() | float():
            return _is_number(expected) and _near(value, expected, TOLERANCE)
        case {"enum": [_, name, member]}:  # an agent receives the value of the member
            return equals(member, expected) or bool(name == expected)
        case dict() if is_packed_array(value):
            return equals(plain_value(value), expected)
        case {"set": [*items]} | {"frozenset": [*items]}:
            return isinstance(expected, list) and _same_items(items, expected)
        case list() | {"tuple": list()}:
            items = value if isinstance(value, list) else value["tuple"]
            return isinstance(expected, list) and len(items) == len(expected) and all(map(equals, items, expected))
        case {"deque": [[*items], _]}:
            return equals(items, expected)
        case {"range": [start, stop, step]}:
            return isinstance(expected, list) and expected == list(range(start, stop, step)[: len(expected) + 1])
        case {"dict": [*pairs]} | {"counter": [*pairs]} | {"ordered": [*pairs]} | {"defaultdict": [_, [*pairs]]}:
            fields = {_key_text(key): each for key, each in pairs}
            return len(fields) == len(pairs) and _same_fields(fields, expected)
        case {"object": [_, dict(fields)]}:
            if isinstance(expected, list):  # an agent receives a named tuple as a list
                return equals(list(fields.values()), expected)
            return _same_fields(fields, expected)
        case {"datetime": str(text)} | {"time": str(text)}:
            return isinstance(expected, str) and expected.replace("Z", "+00:00") == text
        case {"timedelta": [*parts]}:
            return _as_timedelta(expected) == dt.timedelta(*parts)
        case {"bytes": str(text)} | {"bytearray": str(text)}:
            return isinstance(expected, str) and expected.encode().hex() == text
        case {"complex": [real, imaginary]}:
            return isinstance(expected, str) and complex(expected.replace(" ", "")) == complex(real, imaginary)
        case {"float": str(text)}:
            return isinstance(expected, str) and expected.strip("+").lower() in (text, text.replace("inf", "infinity"))
    try:
        return bool(as_json(value) == expected)
    except ValueError:
        return False


def _near(value: float, expected: float, tolerance: float) -> bool:
    """Return whether a number equals the expected one. Whole numbers do so exactly, others may differ relatively."""
    if all(isinstance(each, int) or (each.is_integer() and abs(each) <= _EXACT) for each in (value, expected)):
        return value == expected
    return math.isclose(value, expected, rel_tol=tolerance, abs_tol=0.0 if expected else _ZERO)


def _as_timedelta(expected: Any) -> dt.timedelta | None:
    """Parse a time span: a number of seconds, ISO 8601 text such as ``P1DT2H``, or text such as ``1 day, 2:00:00``."""
    try:
        return _SPAN.validate_python(expected)
    except ValidationError:
        return None


def _key_text(key: Any) -> str:
    """Return the key that an agent receives in a JSON object for a packed key.

    Raises:
        ValueError: JSON has no such key.
    """
    match key:
        case bool():
            return "true" if key else "false"
        case {"tuple": [*items]}:
            return ",".join(map(_key_text, items))
        case dict():
            return str(as_json(key))
    return str(key)


def _same_items(items: list[Any], expected: list[Any]) -> bool:
    """Return whether the items are the same in any order."""
    left = list(expected)
    for item in items:
        found = next((i for i, each in enumerate(left) if equals(item, each)), None)
        if found is None:
            return False
        del left[found]
    return not left


def _same_fields(fields: Mapping[str, Any], expected: Any) -> bool:
    return (
        isinstance(expected, Mapping)
        and fields.keys() == expected.keys()
        and all(equals(each, expected[name]) for name, each in fields.items())
    )


def _items_of(value: Any) -> list[Any] | None:
    match value:
        case list():
            return value
        case {"tuple": [*items]} | {"set": [*items]} | {"frozenset": [*items]} | {"deque": [[*items], _]}:
            return items
        case dict() if is_packed_array(value):
            return _items_of(plain_value(value))
        case {"dict": [*pairs]} | {"counter": [*pairs]} | {"ordered": [*pairs]} | {"defaultdict": [_, [*pairs]]}:
            return [key for key, _ in pairs]
    return None


def _raises(answer: Data, operand: Any) -> bool:
    raised = answer.get("raised")
    types = raised.get("types") if isinstance(raised, dict) else None
    return isinstance(types, list) and str(operand).rpartition(".")[2] in {
        str(each).rpartition(":")[2].rpartition(".")[2] for each in types
    }


def _close_to(value: Any, operand: Any) -> bool:
    number = plain_value(value) if is_packed_array(value) else value
    return _is_number(number) and math.isclose(number, operand, rel_tol=CLOSE, abs_tol=0.0 if operand else _ZERO)


def _between(value: Any, operand: Any) -> bool:
    number = plain_value(value) if is_packed_array(value) else value
    return _is_number(number) and bool(operand[0] <= number <= operand[1])


def _length(value: Any, operand: Any) -> bool:
    items = value if isinstance(value, str) else _items_of(value)
    return items is not None and len(items) == operand


def _contains(value: Any, operand: Any) -> bool:
    if isinstance(value, str):
        return isinstance(operand, str) and operand in value
    return any(equals(each, operand) for each in _items_of(value) or ())


def _sorted(value: Any, _: Any) -> bool:
    items = _items_of(value)
    if not isinstance(items, list) or (isinstance(value, dict) and "tuple" not in value):
        return False
    try:
        plain = [as_json(each) for each in items]
        return all(one <= other for one, other in itertools.pairwise(plain))
    except (ValueError, TypeError):
        return False


def _permutation_of(value: Any, operand: Any) -> bool:
    items = _items_of(value)
    return items is not None and _same_items(items, operand)


def _of_value(check: Callable[[Any, Any], bool]) -> Callable[[Data, Any], bool]:
    return lambda answer, operand: "value" in answer and check(answer["value"], operand)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHECKS: Mapping[str, Callable[[Data, Any], bool]] = {
    RESULT: _of_value(equals),
    RAISES: _raises,
    UNSPECIFIED: lambda *_: True,
    "one_of": _of_value(lambda value, operand: any(equals(value, each) for each in operand)),
    "close_to": _of_value(_close_to),
    "between": _of_value(_between),
    "length": _of_value(_length),
    "contains": _of_value(_contains),
    "sorted": _of_value(_sorted),
    "permutation_of": _of_value(_permutation_of),
}

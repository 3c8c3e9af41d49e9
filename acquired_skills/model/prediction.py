"""Questions about a skill's results, and the predictions that answer them (GATE-1).

A question gives the arguments of a call but not its result. The author of the proposal predicts the result, and
admission compares the prediction with what the code returned in its box.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

RESULT, RAISES, UNSPECIFIED = "result", "raises", "unspecified"
CHECKS: Mapping[str, str] = {
    RESULT: "the exact result",
    RAISES: "the type of the exception, such as ValueError",
    "one_of": "a list of all acceptable results",
    "close_to": "a number that the result differs from by at most 0.1 %",
    "between": "a list of the smallest and the largest acceptable result",
    "length": "the length of the result",
    "contains": "an item, key or part of the result",
    "sorted": "true: the items are in ascending order",
    "permutation_of": "a list of the same items in any order",
    UNSPECIFIED: "true: the skill is not meant for these arguments, so any result is acceptable",
}
MOST_PREDICTIONS = 100
MOST_CHARS = 20_000  # maximum number of characters of one prediction as JSON


@dataclass(frozen=True, slots=True)
class Prediction:
    """The result that the author of a proposal expects from one call.

    Attributes:
        arguments: The arguments of the call by name, as JSON.
        checks: The checks that the result must pass. Maps the name of each check (a key of `CHECKS`) to its operand.
    """

    arguments: Mapping[str, Any]
    checks: Mapping[str, Any]

    @classmethod
    def parse(cls, found: Any) -> "Prediction":
        """Parse a prediction from a JSON object such as ``{"arguments": {"n": 4}, "result": "IV"}``.

        Raises:
            ValueError: The object is not a valid prediction. The message says what to change.
        """
        arguments = found.get("arguments") if isinstance(found, Mapping) else None
        if not isinstance(arguments, Mapping):
            text = f"{_short(found)} has no `arguments`. Add an object that maps the names of arguments to values."
            raise ValueError(text)  # noqa: TRY004 -- one type for any fault
        checks = {name: operand for name, operand in found.items() if name != "arguments"}
        unknown = sorted(str(name) for name in checks if name not in CHECKS)
        if unknown:
            raise ValueError(f"`{unknown[0][:40]}` is not a check: use {', '.join(CHECKS)}.")
        if not checks:
            raise ValueError(f"{_short(found)} predicts nothing: add `result`, or one of {', '.join(CHECKS)}.")
        for name, operand in checks.items():
            if name in _FITS and not _FITS[name](operand):
                raise ValueError(f"`{name}` in {_short(found)} must be {CHECKS[name]}.")
        try:
            if len(json.dumps(found)) > MOST_CHARS:
                raise ValueError(f"{_short(found)} is too long: use at most {MOST_CHARS:,} characters.")
        except (TypeError, RecursionError):
            raise ValueError(f"{_short(found)} cannot be represented as JSON. Use only JSON values.") from None
        return cls(dict(arguments), checks)


def parse_predictions(found: Iterable[Any]) -> tuple[Prediction, ...]:
    """Parse predictions from JSON objects.

    Raises:
        ValueError: A prediction is invalid, or there are too many.
    """
    predictions = tuple(map(Prediction.parse, found))
    if len(predictions) > MOST_PREDICTIONS:
        raise ValueError(f"There are {len(predictions)} predictions: send at most {MOST_PREDICTIONS}.")
    return predictions


@dataclass(frozen=True, slots=True)
class Question:
    """A call whose result the author of a proposal is asked to predict.

    Attributes:
        arguments: The arguments of the call by name, as plain JSON.
        disputed: Whether the author's prediction differs from the result of the code, so one of the two is wrong.
    """

    arguments: Mapping[str, Any]
    disputed: bool = False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(found: Any) -> str:
    text = repr(found)
    return f"`{text if len(text) <= 120 else text[:120] + '…'}`"  # noqa: PLR2004 -- enough to recognize it


_FITS: Mapping[str, Callable[[Any], bool]] = {  # the allowed operands of these checks; other checks take any value
    RAISES: lambda operand: isinstance(operand, str) and bool(operand),
    UNSPECIFIED: lambda operand: operand is True,
    "sorted": lambda operand: operand is True,
    "one_of": lambda operand: isinstance(operand, list),
    "permutation_of": lambda operand: isinstance(operand, list),
    "close_to": _is_number,
    "between": lambda operand: isinstance(operand, list) and len(operand) == 2 and all(map(_is_number, operand)),  # noqa: PLR2004 -- a pair
    "length": lambda operand: type(operand) is int and operand >= 0,
}

"""Compares and formats the answers of a skill.

The answer to a call is the value that the call returned or the exception that it raised, as packed data
(`acquired_skills.in_box.packing`).
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from acquired_skills.model.proposal import ProposalProblem
from sandbox.contract import Outcome

_MAX_SHOWN = 160
_ROUNDING = 1e-9  # relative difference of floats that tests need not detect
_ZERO = 1e-15  # floats nearer to each other are taken for rounding errors of 0

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RepeatedAnswers:
    """The skill's answers to the same calls, which are made three times.

    Attributes:
        forth: The answers of a process that makes the calls in order.
        again: The answers of the same process when it repeats the calls.
        back: The answers of another process, which makes the calls in reverse order.
        seconds: The time in seconds that `forth` and `again` took together.
    """

    forth: Sequence[Data]
    again: Sequence[Data]
    back: Sequence[Data]
    seconds: float


def nondeterministic_calls(found: RepeatedAnswers) -> frozenset[int]:
    """Return the indices of the calls that the skill does not always answer in the same way."""
    return frozenset(
        number
        for number, first in enumerate(found.forth)
        for order in (found.again, found.back)
        if order[number] != first and _compared_part(order[number]) != _compared_part(first)
    )


def replay_problems(
    name: str, calls: Sequence[Data], found: RepeatedAnswers, recorded: Mapping[int, Data], varying: frozenset[int]
) -> Iterator[ProposalProblem]:
    """Yield a problem for the first call that cannot be replayed without the tests (SKILL-7).

    Such a call ends the process, or its answer differs from the one that was recorded with the tests.

    Args:
        recorded: Answers recorded with the tests, by the index of the call.
        varying: Indices of nondeterministic calls.
    """
    for number, (call, first) in enumerate(zip(calls, found.forth, strict=True)):
        if "ended" in first:
            yield ProposalProblem(
                "replay",
                f"{format_call(name, call)} ends its process, or takes too long, when it is called without the tests. "
                "Make it return a result or raise an exception, in less time.",
            )
            return
        with_tests = recorded.get(number)
        if number in varying or with_tests is None or same_answer(with_tests, first):
            continue
        yield ProposalProblem(
            "replay",
            f"{format_call(name, call)} gives {format_answer(with_tests)} with its tests and {format_answer(first)} "
            "without them. Make the result depend on the arguments alone, not on the caller, the files of the tests, "
            "chance or the time.",
        )
        return


def same_answer(one: Data, other: Data) -> bool:
    """Return whether two answers are the same, ignoring the order of items."""
    return _same(_compared_part(one), _compared_part(other))


def identical_answer(one: Data, other: Data) -> bool:
    """Return whether two answers are the same, with all items in the same order. Items of a dict have none."""
    first, second = _compared_part(one), _compared_part(other)
    return json.dumps(first) == json.dumps(second) or bool(_without_dict_order(first) == _without_dict_order(second))


def close_answer(one: Data, other: Data) -> bool:
    """Return whether two answers differ only by the rounding of floats."""
    return value_difference(one, other, _rounding_difference) == 0.0


def value_difference(one: Data, other: Data, between: Callable[[float, float], float]) -> float:
    """Return the largest difference between the floats of two answers.

    The result is infinite if the answers differ in anything else, or if one of them is no value.

    Args:
        between: Returns the difference between two floats.
    """
    if "value" not in one or "value" not in other:
        return math.inf
    return _difference(one["value"], other["value"], between)


def json_arguments(call: Data, parameters: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of a call by name; None if plain JSON does not represent the call exactly."""
    if "files" in call or "clock" in call or len(call["arguments"]) > len(parameters):
        return None
    given = {**dict(zip(parameters, call["arguments"], strict=False)), **call["named"]}
    try:
        return {name: to_plain_json(value, exact=True) for name, value in given.items()}
    except TypeError:
        return None


def with_integers(arguments: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as an agent sends them: with integers instead of floats where the schema wants integers.

    Args:
        properties: The schemas of the parameters by name.
    """
    return {
        name: int(value)
        if isinstance(value, float) and value.is_integer() and properties.get(name, {}).get("type") == "integer"
        else value
        for name, value in arguments.items()
    }


def outcome_differs(outcome: Outcome, answer: Data) -> bool:
    """Return whether the outcome of an agent's call differs from an answer, when both are compared as JSON."""
    if "raised" in answer:
        return outcome.ok or (outcome.error is not None and outcome.error.type != _raised(answer))
    try:
        expected = to_plain_json(answer.get("value"))
    except TypeError:
        return False
    return not outcome.ok or not _same(outcome.value, expected)


def to_plain_json(value: Any, *, exact: bool = False) -> Any:
    """Convert packed data to the JSON that agents exchange.

    Args:
        exact: Whether to reject values, such as tuples, that a JSON round trip would change.

    Raises:
        TypeError: The value has no JSON equivalent.
    """
    match value:
        case list():
            return [to_plain_json(each, exact=exact) for each in value]
        case {"dict": [*pairs]} if len(value) == 1:
            if not all(isinstance(key, str) for key, _ in pairs):
                raise TypeError
            return {key: to_plain_json(each, exact=exact) for key, each in pairs}
        case {"tuple": [*items]} if len(value) == 1 and not exact:
            return [to_plain_json(each) for each in items]
        case dict():
            raise TypeError
    return value


def format_call(name: str, call: Data) -> str:
    """Format a call as source code for a message. Long calls are shortened."""
    parts = [_text(each) for each in call["arguments"]] + [f"{key}={_text(v)}" for key, v in call["named"].items()]
    text = _short(f"{name}({', '.join(parts)})")
    return f"`{text}`" + (f" at {_short(str(call['clock']))}" if "clock" in call else "")


def format_answer(answer: Data) -> str:
    """Format an answer for a message. Long answers are shortened."""
    if "raised" in answer:
        return f"{_raised(answer)}"
    if "value" in answer:
        return f"`{_short(_text(answer['value']))}`"
    return "a value that cannot be shown"


def _compared_part(answer: Data) -> Any:
    """Return the part of an answer that must match: the value, or the type of the exception."""
    if "raised" in answer:
        return ["raised", _raised(answer)]
    return ["value", answer.get("value"), "lost" in answer, "ended" in answer]


def _same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same, ignoring the order of items."""
    if json.dumps(one) == json.dumps(other):  # true for most answers; putting values in order is slow
        return True
    return bool(_unordered(one) == _unordered(other))


def _rounding_difference(one: float, other: float) -> float:
    return 0.0 if math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=_ZERO) else math.inf


def _difference(one: Any, other: Any, between: Callable[[float, float], float]) -> float:
    if isinstance(one, float) and isinstance(other, float):
        return between(one, other)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max((_difference(*pair, between) for pair in zip(one, other, strict=True)), default=0.0)
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((_difference(each, other[name], between) for name, each in one.items()), default=0.0)
    return 0.0 if one == other and type(one) is type(other) else math.inf


def _without_dict_order(value: Any) -> Any:
    match value:
        case list():
            return [_without_dict_order(each) for each in value]
        case {"dict": [*pairs]} | {"counter": [*pairs]} | {"defaultdict": [_, [*pairs]]} if len(value) == 1:
            (kind,) = value
            inner = sorted(([_without_dict_order(each) for each in pair] for pair in pairs), key=json.dumps)
            return {kind: inner if kind != "defaultdict" else [value[kind][0], inner]}
        case dict():
            return {name: _without_dict_order(each) for name, each in value.items()}
    return value


def _unordered(value: Any) -> Any:
    """Return the value in a canonical order, since the order of sets of strings varies between processes."""
    return _ordered(value)[0]


def _ordered(value: Any) -> tuple[Any, str]:
    """Return the value in a canonical order, and its sort key.

    The key is short, so that sorting deeply nested values is cheap.
    """
    if isinstance(value, list):
        items = sorted(map(_ordered, value), key=itemgetter(1))
        return [each for each, _ in items], _digest("list", [key for _, key in items])
    if isinstance(value, dict):
        fields = {name: _ordered(each) for name, each in value.items()}
        return (
            {name: each for name, (each, _) in fields.items()},
            _digest("dict", sorted((name, key) for name, (_, key) in fields.items())),
        )
    text = json.dumps(value)
    return value, text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}{_digest('text', text)}"


def _digest(kind: str, of: Any) -> str:
    return hashlib.sha256(json.dumps([kind, of]).encode()).hexdigest()


def _raised(answer: Data) -> str:
    types = answer["raised"].get("types") if isinstance(answer["raised"], dict) else None
    return str(types[0]).rpartition(":")[2][:80] if isinstance(types, list) and types else "an exception"


def _text(value: Any) -> str:  # noqa: PLR0911 -- one return per kind
    match value:
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case {"dict": [*pairs]}:
            return "{" + ", ".join(f"{_text(key)}: {_text(each)}" for key, each in pairs) + "}"
        case {"tuple": [*items]}:
            return f"({', '.join(map(_text, items))}{',' if len(items) == 1 else ''})"
        case {"set": [*items]} if items:
            return "{" + ", ".join(map(_text, items)) + "}"
        case {"object": [str(name), dict(fields), *_]}:
            return f"{name}({', '.join(f'{field}={_text(each)}' for field, each in fields.items())})"
        case {"again": _}:
            return "…"
        case {"deque": [list(items), _]}:
            return f"deque({_text(items)})"
        case dict() if len(value) == 1:
            return f"{next(iter(value))}({next(iter(value.values()))!r})"
    return repr(value)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"

"""Generates calls similar to those of the tests (SKILL-6), which may expose a mutant that no test kills.

They are made from the calls as data (`acquired_skills.in_box.packing`): with other values of the same kind, the other
calls' arguments, and constants of the code. The same seed gives the same calls.
"""

import ast
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from acquired_skills.model.parsed import ParsedSource

_MOST_CONSTANTS = 20
_MOST_CHARS = 50  # of a constant
_MOST_NUMBER = 1_000_000
_MOST_ITEMS = 200  # of a list that is doubled or changed inside

Data = Mapping[str, Any]


def similar_calls(calls: Sequence[Data], code: ParsedSource, most: int, seed: int) -> list[dict[str, Any]]:
    """Return at most so many other calls, taking the arguments of the calls in turn. code: the skill's, for its
    constants.
    """
    order, found = random.Random(seed), _constants(code)  # noqa: S311 -- a choice, not a secret
    rows = []
    for call in calls:
        for field, place in _places(call):
            given = [each[field][place] for each in calls if (field, place) in _places(each)]
            row = [_with(call, field, place, value) for value in _others(call[field][place], (*given, *found))]
            order.shuffle(row)
            rows.append(row)
    order.shuffle(rows)
    seen = {_key(call) for call in calls}
    chosen: list[dict[str, Any]] = []
    for turn in zip_longest(*rows):
        for each in turn:
            if len(chosen) == most:
                return chosen
            if each is not None and _key(each) not in seen:
                seen.add(_key(each))
                chosen.append(each)
    return chosen


def _places(call: Data) -> list[tuple[str, Any]]:
    """Return where its arguments are: the field, and the number or name in it."""
    return [*(("arguments", i) for i in range(len(call["arguments"]))), *(("named", name) for name in call["named"])]


def _with(call: Data, field: str, place: Any, value: Any) -> dict[str, Any]:
    held: Any = list(call[field]) if field == "arguments" else dict(call[field])
    held[place] = value
    return {**call, field: held}


def _others(value: Any, given: Sequence[Any]) -> Iterator[Any]:
    """Yield other values of the same kind: `given` ones, the edges of the kind, and small changes."""
    yield from (each for each in given if _kind(each) == _kind(value))
    match value:
        case bool():
            yield not value
        case int() | float():
            yield from (value + 1, value - 1, -value, type(value)(0), type(value)(1))
        case str():
            yield from ("", value[:1], value.upper(), value[::-1], value + value[-1:], value[1:])
        case list():
            yield from _lists(value, given)
        case dict() if len(value) == 1:
            ((kind, inner),) = value.items()
            if kind in ("tuple", "set", "frozenset") and isinstance(inner, list):
                yield from ({kind: each} for each in _lists(inner, given) if kind == "tuple" or _is_set(each))
            elif kind == "dict" and isinstance(inner, list):
                yield from ({kind: each} for each in ([], inner[:1], inner[1:]))
                for other in _others(inner[0][1], given) if inner else ():
                    yield {kind: [[inner[0][0], other], *inner[1:]]}


def _lists(items: list[Any], given: Sequence[Any]) -> Iterator[list[Any]]:
    yield from ([], items[:1], items[::-1], items[1:])
    if items and len(items) <= _MOST_ITEMS:
        yield from (items + items, [*items, items[0]])
        for at in {0, len(items) // 2, len(items) - 1}:
            yield from ([*items[:at], other, *items[at + 1 :]] for other in _others(items[at], given))


def _is_set(items: list[Any]) -> bool:
    return len({_key(each) for each in items}) == len(items)


def _kind(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(value)
    if isinstance(value, list):
        return "list", _kind(value[0]) if value else None
    return type(value)


def _constants(code: ParsedSource) -> list[Any]:
    """Return the numbers and strings in the code, and the numbers next to them."""
    found: dict[str, Any] = {}
    for node in code.nodes:
        match node:
            case ast.Constant(value=str(text)) if len(text) <= _MOST_CHARS and text.isprintable():
                found[_key(text)] = text
            case ast.Constant(value=int() | float() as number) if (
                not isinstance(number, bool) and abs(number) <= _MOST_NUMBER
            ):
                found |= {_key(each): each for each in (number, number + 1, number - 1)}
    return list(found.values())[:_MOST_CONSTANTS]


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

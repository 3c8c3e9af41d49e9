"""Generates calls similar to those of the tests, to expose mutants that no test kills (SKILL-6).

They are derived from the calls of the tests as packed data (`acquired_skills.in_box.packing`). Arguments are replaced
by other values of the same type, by arguments of other calls, and by constants in the code. The same seed gives the
same calls.
"""

import ast
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.proof.answers import Data
from acquired_skills.proof.varied_calls import argument_places, take_in_turn, value_key, with_argument

_MOST_CONSTANTS = 20
_MOST_CHARS = 50  # largest number of characters of a constant that is used
_MOST_NUMBER = 1_000_000
_MOST_ITEMS = 200  # largest number of items of a list that is changed


def similar_calls(
    calls: Sequence[Data], code: ParsedSource | ParsedProposal, most: int, seed: int
) -> list[dict[str, Any]]:
    """Return at most `most` new calls, made by varying the arguments of each call in turn.

    Args:
        code: The skill's code. Its constants are used as arguments too.
    """
    order, found = random.Random(seed), _constants(code)  # noqa: S311 -- a choice, not a secret
    rows = []
    for call in calls:
        for place in argument_places(call):
            field, at = place
            given = [each[field][at] for each in calls if place in argument_places(each)]
            row = [with_argument(call, place, value) for value in _others(call[field][at], (*given, *found))]
            order.shuffle(row)
            rows.append(row)
    order.shuffle(rows)
    return take_in_turn(rows, calls, most)


def _others(value: Any, given: Sequence[Any]) -> Iterator[Any]:  # noqa: C901 -- one branch per kind
    """Yield other values of the same kind: those in `given`, edge cases, and small changes of the value."""
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
            elif kind == "array" and isinstance(inner[2], list):
                dtype, shape, elements = inner
                yield from ({kind: [dtype, shape, each]} for each in (elements[::-1], elements[:1] * len(elements)))
            elif kind == "object":
                yield from _instances(inner, given)


def _lists(items: list[Any], given: Sequence[Any]) -> Iterator[list[Any]]:
    yield from ([], items[:1], items[::-1], items[1:])
    if items and len(items) <= _MOST_ITEMS:
        yield from (items + items, [*items, items[0]])
        for at in {0, len(items) // 2, len(items) - 1}:
            yield from ([*items[:at], other, *items[at + 1 :]] for other in _others(items[at], given))


def _instances(inner: Any, given: Sequence[Any]) -> Iterator[Any]:
    """Yield copies of an instance of a class, each with another value in one field.

    Only trees are varied. In a graph, a second reference to an instance would no longer point to the changed copy.
    """
    name, fields, *number = inner
    if number or '"again"' in json.dumps(fields):
        return
    for field, value in fields.items():
        for other in _others(value, given):
            yield {"object": [name, {**fields, field: other}]}
        if _kind(value) == ("object",):
            yield {"object": [name, {**fields, field: None}]}


def _is_set(items: list[Any]) -> bool:
    return len({value_key(each) for each in items}) == len(items)


def _kind(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(value)
    if isinstance(value, list):
        return "list", _kind(value[0]) if value else None
    return type(value)


def _constants(code: ParsedSource | ParsedProposal) -> list[Any]:
    """Return the numbers and strings in the code, and the numbers just below and above each number."""
    found: dict[str, Any] = {}
    for node in code.nodes:
        match node:
            case ast.Constant(value=str(text)) if len(text) <= _MOST_CHARS and text.isprintable():
                found[value_key(text)] = text
            case ast.Constant(value=int() | float() as number) if (
                not isinstance(number, bool) and abs(number) <= _MOST_NUMBER
            ):
                found |= {value_key(each): each for each in (number, number + 1, number - 1)}
    return list(found.values())[:_MOST_CONSTANTS]

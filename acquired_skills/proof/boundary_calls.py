"""Makes calls with boundary values: empty, zero, negative, one item, duplicates, ties and long values (GATE-1).

Faults are most common at the boundaries of the input domain (Myers, "The Art of Software Testing", 1979). The calls are
derived from the calls in the tests, and both are data (`acquired_skills.in_box.packing`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from acquired_skills.proof.answers import Data
from acquired_skills.proof.varied_calls import Place, argument_places, take_in_turn, value_key, with_argument

_LONG = 12  # number of items of a long list, with which an author can still predict the result
_LISTS = ("tuple", "set", "frozenset")


def boundary_calls(calls: Sequence[Data], most: int) -> list[dict[str, Any]]:
    """Return at most `most` new calls: calls from the tests, with boundary values for one argument or for all."""
    rows: list[list[dict[str, Any]]] = []
    for call in calls:
        places = argument_places(call)
        rows += [[with_argument(call, at, value) for value in _values(_argument(call, at))] for at in places]
        together = zip(*(_values(_argument(call, place)) for place in places), strict=False)
        rows.append([_all_with(call, places, values) for values in together if len(places) > 1])
    return take_in_turn(rows, calls, most)


def _argument(call: Data, place: Place) -> Any:
    return call[place[0]][place[1]]


def _all_with(call: Data, places: Sequence[Place], values: Sequence[Any]) -> dict[str, Any]:
    changed = dict(call)
    for place, value in zip(places, values, strict=True):
        changed = with_argument(changed, place, value)
    return changed


def _values(value: Any) -> Iterator[Any]:  # noqa: C901 -- one branch per kind
    """Yield boundary values of the same type as a value."""
    match value:
        case bool():
            yield not value
        case int() | float():
            kind = type(value)
            yield from (kind(0), kind(1), -value, kind(-1), kind(2), kind(10), value * 2, kind(100))
        case str():
            first = value[:1] or "a"
            yield from ("", first, first * 2, f"{value} {value}", f" {value} ", value.swapcase(), value * 2, "1")
            yield from (f"-{value}", f"+{value}", "-1", "+1", "1.5", "-", f"{value}.", f"\n{value}")
        case list():
            yield from _lists(value)
        case dict() if len(value) == 1:
            ((kind, inner),) = value.items()
            if kind in _LISTS and isinstance(inner, list):
                for items in _lists(inner):
                    if kind == "tuple" or len({value_key(each) for each in items}) == len(items):
                        yield {kind: items}
            elif kind == "dict" and isinstance(inner, list):
                yield from ({kind: []}, {kind: inner[:1]}, {kind: inner[::-1]})
                if len(inner) > 1:  # a tie
                    yield {kind: [[pair[0], inner[0][1]] for pair in inner]}


def _lists(items: list[Any]) -> Iterator[list[Any]]:
    yield []
    if not items:
        return
    yield from ([items[0]], [items[0], items[0]], items[::-1], [*items, items[0]], [*items, items[-1]])
    long = (items * _LONG)[: max(_LONG, len(items) + 1)]
    yield from ([items[0]] * len(items), [items[-1], *items[:-1]], long)
    for at in (0, len(items) - 1):
        yield from ([*items[:at], other, *items[at + 1 :]] for other in list(_values(items[at]))[:3])

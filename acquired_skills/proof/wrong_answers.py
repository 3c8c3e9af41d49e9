"""Makes wrong answers of the right kind, such as another number for a number (SKILL-4).

A test that passes on all of them checks only the kind of the answer. The engine, not the skill, makes them from the
skill's answers, which are data (`acquired_skills.in_box.packing`).
"""

from collections.abc import Mapping
from typing import Any

WAYS = 3
_PAIR = 2
_OTHERS = ("Exception", "RuntimeError", "OSError")  # types that replace the type of a raised exception


def wrong_answer(answer: Mapping[str, Any], way: int) -> dict[str, Any]:
    """Return a different answer of the same kind. If the kind is unknown, the value of the answer is None.

    Every part of the answer is changed for at least one value of `way`, so that a test of any part can fail.

    Args:
        way: Which change to make, from 0 to `WAYS` - 1.
    """
    if "raised" in answer:
        return {"raised": {"types": [f"builtins:{_OTHERS[way]}", "builtins:Exception"], "args": ["?"], "text": "?"}}
    return {"value": _other(answer.get("value"), way)}


def near_misses(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return wrong answers that have much in common with the right one: its length, its items or its letters."""
    match answer.get("value"):
        case str(text):
            found: list[Any] = [text[::-1], text.swapcase(), text[1:] + text[:1]]
        case list(items):
            found = _reordered(items)
        case {"tuple": [*items]}:
            found = [{"tuple": each} for each in _reordered(items)]
        case _:
            found = []
    return [{"value": each} for each in found if each != answer.get("value")]


def _reordered(items: list[Any]) -> list[Any]:
    return [items[::-1], items[1:] + items[:1], [*items[:-1], _other(items[-1], 0)] if items else []]


def _other(value: Any, way: int) -> Any:  # noqa: PLR0911 -- one return per kind
    match value:
        case None:
            return (1, "?", False)[way]
        case bool():
            return not value
        case int() | float():
            return (value + 1, -value - 1, 0 if value else 1)[way]
        case str():
            return (f"{value}?", "" if value else "?", f"?{value[1:]}")[way]
        case list():
            return _others(value, way)
        case dict() if len(value) == 1:
            return _tagged(*next(iter(value.items())), way)
    return None


def _others(items: list[Any], way: int) -> list[Any]:
    if not items:
        return [(0, "?", None)[way]]
    return (items[:-1], [_other(each, 1) for each in items], [])[way]


def _tagged(kind: str, inner: Any, way: int) -> Any:  # noqa: C901, PLR0911, PLR0912 -- likewise
    match kind, inner:
        case (("tuple" | "set" | "frozenset"), list()):
            return {kind: _others(inner, way)}
        case "array", [dtype, list(shape), list(items)]:
            return {kind: [dtype, shape, [_other(each, way) for each in items]] if items else [dtype, [1], [0]]}
        case "scalar", [dtype, item]:
            return {kind: [dtype, _other(item, way)]}
        case "column", [dtype, list(items)]:
            return {kind: [dtype, [_other(each, 1) for each in items]]}
        case "series", [values, *rest]:
            return {kind: [_other(values, way), *rest]}
        case "index", [values, name, _]:
            return {kind: [_other(values, way), name, None]}
        case "frame", [list(columns), *rest]:
            return {kind: [[_other(each, way) for each in columns], *rest]}
        case "deque", [list(items), _]:
            return {kind: [_others(items, way), None]}
        case (("dict" | "counter" | "ordered"), [*pairs]):
            return {kind: _other_pairs(pairs, way)}
        case "defaultdict", [factory, [*pairs]]:
            return {kind: [factory, _other_pairs(pairs, way)]}
        case "object", [name, dict(fields), *number] if fields:
            return {kind: [name, {field: _other(value, way) for field, value in fields.items()}, *number]}
        case "again", [int(number), int(known)] if 0 <= number < known and known > 1:
            return {kind: [(number + way + 1) % known, known]}  # another instance among the arguments
        case (("decimal" | "fraction"), _):
            return {kind: ("-7", "0", "1/3" if kind == "fraction" else "0.3")[way]}
        case (("date" | "datetime"), str(text)):
            return {kind: f"{1900 + way}{text[4:]}".replace("-02-29", "-02-28")}
        case (("text" | "bytes" | "bytearray"), _):
            return {kind: ("", "3f", "3f3f")[way]}
    return None


def _other_pairs(pairs: list[Any], way: int) -> list[Any]:
    if not pairs:
        return [["?", None]]
    changed = [[pair[0], _other(pair[1], 1)] for pair in pairs if isinstance(pair, list) and len(pair) == _PAIR]
    return (pairs[:-1], changed, [])[way]

"""Makes wrong answers of the right kind (SKILL-4): a test that passes on all of them only checks the kind.

The engine, not the skill, makes them from the answers as data (`acquired_skills.in_box.packing`).
"""

from collections.abc import Mapping
from typing import Any

WAYS = 3
_OTHERS = ("Exception", "RuntimeError", "OSError")  # in place of another exception


def wrong_answer(answer: Mapping[str, Any], way: int) -> dict[str, Any]:
    """Return another answer of the same kind; None as the value for an unknown kind.

    At least one of the ways changes every part of the answer, so that a test of any part notices.
    """
    if "raised" in answer:
        return {"raised": {"types": [f"builtins:{_OTHERS[way]}", "builtins:Exception"], "args": ["?"], "text": "?"}}
    return {"value": _other(answer.get("value"), way)}


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


def _tagged(kind: str, inner: Any, way: int) -> Any:  # noqa: PLR0911 -- likewise
    match kind, inner:
        case (("tuple" | "set" | "frozenset"), list()):
            return {kind: _others(inner, way)}
        case "dict", [*pairs]:
            if not pairs:
                return {kind: [["?", None]]}
            return {kind: (pairs[:-1], [[key, _other(value, 1)] for key, value in pairs], [])[way]}
        case "object", [name, dict(fields)] if fields:
            return {kind: [name, {field: _other(value, way) for field, value in fields.items()}]}
        case (("decimal" | "fraction"), _):
            return {kind: ("-7", "0", "1/3" if kind == "fraction" else "0.3")[way]}
        case (("date" | "datetime"), str(text)):
            return {kind: f"{1900 + way}{text[4:]}".replace("-02-29", "-02-28")}
        case (("text" | "bytes" | "bytearray"), _):
            return {kind: ("", "3f", "3f3f")[way]}
    return None

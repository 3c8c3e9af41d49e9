"""Conditions of a branch: a handful of comparisons of mapped values. Data, never code.

{"equals": [a, b]}  {"less": [a, b]}  {"in": [a, list]}  {"exists": "/fetch/title"}
{"not": c}  {"all": [c, ...]}  {"any": [c, ...]}
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from acquired_skills.composed.mapping import (
    Constant,
    From,
    Mapped,
    NoMapping,
    Unresolved,
    follow,
    mapping_of,
    pointer_of,
    references,
    resolve,
)

_KNOWN = "equals, less, in, exists, not, all, any"


@dataclass(frozen=True, slots=True)
class Compare:
    how: Literal["equals", "less", "in"]
    left: Mapped
    right: Mapped


@dataclass(frozen=True, slots=True)
class Exists:
    """Whether a path leads to a value, null included."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Not:
    condition: "Condition"


@dataclass(frozen=True, slots=True)
class Several:
    how: Literal["all", "any"]
    conditions: tuple["Condition", ...]


Condition: TypeAlias = Compare | Exists | Not | Several


def condition_of(value: Any) -> Condition:
    """The condition that a JSON value is. Raises NoMapping. The caller bounds its depth."""
    if not isinstance(value, dict) or len(value) != 1:
        raise NoMapping(f"a condition is an object with one of these keys: {_KNOWN}")
    ((key, inner),) = value.items()
    match key:
        case "equals" | "less" | "in":
            if not isinstance(inner, list) or len(inner) != 2:  # noqa: PLR2004 -- what is compared with what
                raise NoMapping(f"`{key}` takes a list of two values")
            return Compare(key, mapping_of(inner[0]), mapping_of(inner[1]))
        case "exists":
            return Exists(pointer_of(inner))
        case "not":
            return Not(condition_of(inner))
        case "all" | "any":
            if not isinstance(inner, list) or not inner:
                raise NoMapping(f"`{key}` takes a list of conditions")
            return Several(key, tuple(map(condition_of, inner)))
    raise NoMapping(f"{str(key)[:80]!r} is no condition; known are {_KNOWN}")


def holds(condition: Condition, scope: Mapping[str, Any]) -> bool:
    """Raises Unresolved when a value is not there, or two cannot be compared."""
    match condition:
        case Compare(how, left, right):
            return _compare(how, resolve(left, scope), resolve(right, scope))
        case Exists(path):
            try:
                follow(path, scope)
            except Unresolved:
                return False
            return True
        case Not(inner):
            return not holds(inner, scope)
        case Several(how, conditions):
            return (all if how == "all" else any)(holds(each, scope) for each in conditions)


def asked(condition: Condition) -> Iterator[From]:
    """Every reference in it; one that asks whether a value is there may lead nowhere."""
    match condition:
        case Compare(_, left, right):
            yield from references(left)
            yield from references(right)
        case Exists(path):
            yield From(path, Constant(None))
        case Not(inner):
            yield from asked(inner)
        case Several(_, conditions):
            for each in conditions:
                yield from asked(each)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(each, other[key]) for key, each in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _compare(how: Literal["equals", "less", "in"], left: Any, right: Any) -> bool:
    if how == "equals":
        return same(left, right)
    if how == "in":
        if isinstance(right, list):
            return any(same(left, each) for each in right)
        if isinstance(right, Mapping | str) and isinstance(left, str):
            return left in right
        raise Unresolved("`in` asks whether a value is in a list, a key in an object, or a text in a text")
    if _is_number(left) and _is_number(right):
        return bool(left < right)
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    raise Unresolved("`less` compares two numbers or two texts")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

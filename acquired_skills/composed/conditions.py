"""Parses and evaluates the conditions of branches, which compare the values of mappings. They are data, never code.

{"equals": [a, b]}  {"less": [a, b]}  {"in": [a, list]}  {"exists": "/fetch/title"}
{"not": c}  {"all": [c, ...]}  {"any": [c, ...]}
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from acquired_skills.composed.mapping import (
    Constant,
    InvalidMapping,
    Mapped,
    Reference,
    UnresolvedReference,
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
    """A condition that holds if there is a value at a path. Null counts as a value."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Not:
    condition: "Condition"


@dataclass(frozen=True, slots=True)
class Combined:
    how: Literal["all", "any"]
    conditions: tuple["Condition", ...]


Condition: TypeAlias = Compare | Exists | Not | Combined


def condition_of(value: Any) -> Condition:
    """Parse a condition from a JSON value of limited depth.

    Raises:
        InvalidMapping: The value is not a condition.
    """
    if not isinstance(value, dict) or len(value) != 1:
        raise InvalidMapping(f"a condition must be an object with one of these keys: {_KNOWN}")
    ((key, inner),) = value.items()
    match key:
        case "equals" | "less" | "in":
            if not isinstance(inner, list) or len(inner) != 2:  # noqa: PLR2004 -- two operands
                raise InvalidMapping(f"`{key}` must be a list of two values")
            return Compare(key, mapping_of(inner[0]), mapping_of(inner[1]))
        case "exists":
            return Exists(pointer_of(inner))
        case "not":
            return Not(condition_of(inner))
        case "all" | "any":
            if not isinstance(inner, list) or not inner:
                raise InvalidMapping(f"`{key}` must be a list of conditions")
            return Combined(key, tuple(map(condition_of, inner)))
    raise InvalidMapping(f"{str(key)[:80]!r} is not a condition: use one of {_KNOWN}")


def holds(condition: Condition, scope: Mapping[str, Any]) -> bool:
    """Evaluate a condition.

    Raises:
        UnresolvedReference: A value is missing, or two values cannot be compared.
    """
    match condition:
        case Compare(how, left, right):
            return _compare(how, resolve(left, scope), resolve(right, scope))
        case Exists(path):
            try:
                follow(path, scope)
            except UnresolvedReference:
                return False
            return True
        case Not(inner):
            return not holds(inner, scope)
        case Combined(how, conditions):
            return (all if how == "all" else any)(holds(each, scope) for each in conditions)


def condition_references(condition: Condition) -> Iterator[Reference]:
    """Yield every reference in a condition. The reference of an `exists` has a default, so its value may be missing."""
    match condition:
        case Compare(_, left, right):
            yield from references(left)
            yield from references(right)
        case Exists(path):
            yield Reference(path, Constant(None))
        case Not(inner):
            yield from condition_references(inner)
        case Combined(_, conditions):
            for each in conditions:
                yield from condition_references(each)


def json_equal(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal. 1 equals 1.0, but 1 does not equal true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(json_equal(each, other[key]) for key, each in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(json_equal, one, other))
    return bool(one == other)


def _compare(how: Literal["equals", "less", "in"], left: Any, right: Any) -> bool:
    if how == "equals":
        return json_equal(left, right)
    if how == "in":
        if isinstance(right, list):
            return any(json_equal(left, each) for each in right)
        if isinstance(right, Mapping | str) and isinstance(left, str):
            return left in right
        raise UnresolvedReference("`in` needs a list, an object with a string as the key, or two strings")
    if _is_number(left) and _is_number(right):
        return bool(left < right)
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    raise UnresolvedReference("`less` needs two numbers or two strings")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

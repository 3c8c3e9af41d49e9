"""Limits the work of validating against a third-party JSON Schema: even a small schema can take exponential time.

The measure of work is the number of subschemas that a chain of values, nested `CHAIN` deep, can be validated against.
Breadth does not count, because the members of an object are separate values; the work multiplies only where several
subschemas apply to the same value. Ordinary recursive schemas (a tree, an expression, any JSON value) pass. A recursive
schema that validates the same member twice is rejected, because its work doubles with every level.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from engine.contract.strict_json import too_deep

MOST_BYTES = 64 * 1024
MOST_DEPTH = 64
MOST_WORK = 10_000  # the most subschemas that a chain of values may be validated against
CHAIN = 64
_MOST_STEPS = 500_000  # limits the counting itself to about a second

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("not", "if", "then", "else")
_BY_NAME = ("dependentSchemas", "dependencies")
_NOT_LOCAL = ("$dynamicRef", "$recursiveRef")  # their targets are only known during validation
_INDEX = re.compile(r"0|[1-9][0-9]{0,5}")


class _Unusable(Exception):
    """The schema must not be used. The message says why, in one line."""


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Return why the schema must not be used, such as "it is not JSON"; "" if there is no problem.

    References must be JSON pointers within the schema. Whether the schema compiles is not checked.
    """
    if problem := size_problem(schema):
        return problem
    try:
        _Work(schema).measure()
    except _Unusable as error:
        return str(error)
    return ""


def size_problem(schema: Mapping[str, Any]) -> str:
    """Return why the schema is too deep or too large, in the form of `schema_problem`; "" if it is neither."""
    if too_deep(schema, MOST_DEPTH):
        return f"it is nested deeper than {MOST_DEPTH} levels"
    try:
        large = len(json.dumps(schema, default=_plain)) > MOST_BYTES
    except (TypeError, ValueError):
        return "it is not JSON"
    return f"it is larger than {MOST_BYTES >> 10} KiB" if large else ""


@dataclass(slots=True)
class _Inside:
    """Counts how often each subschema applies to the values inside an object or list, by the subschema's id().

    Attributes:
        everywhere: Counts that apply to every value.
        at: Counts to add for the value with this name or index. They are negative for subschemas in `everywhere` that
            do not apply to that value (`additionalProperties` excludes the names of `properties`).
    """

    everywhere: Counter[int] = field(default_factory=Counter)
    at: dict[str | int, Counter[int]] = field(default_factory=dict)

    def add(self, other: "_Inside", times: int) -> None:
        _add(self.everywhere, other.everywhere, times)
        for key, counts in other.at.items():
            _add(self.at.setdefault(key, Counter()), counts, times)

    def size(self) -> int:
        return len(self.everywhere) + sum(len(counts) for counts in self.at.values())

    def most(self, work: Mapping[int, int]) -> int:
        shared = sum(work[each] * times for each, times in self.everywhere.items())
        named = (sum(work[each] * times for each, times in counts.items()) for counts in self.at.values())
        return shared + max(max(named, default=0), 0)


@dataclass(slots=True)
class _Place:
    """The number of subschemas that apply to one value, and the subschemas that apply to the values inside it."""

    count: int = 1
    members: _Inside = field(default_factory=_Inside)
    items: _Inside = field(default_factory=_Inside)


class _Work:
    """Counts the work of validating against one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        old = str(schema.get("$schema", ""))[:100]
        self._ids = ("$id", "id") if "draft-04" in old or "draft-03" in old else ("$id",)
        self._places: dict[int, _Place | None] = {}  # None while it is being counted
        self._heads: dict[int, Mapping[str, Any]] = {}  # subschemas that apply to nested values, by id()
        self._left = _MOST_STEPS

    def measure(self) -> None:
        """Count the work.

        Raises:
            _Unusable: The work exceeds the limit.
        """
        todo = [id(self._root)]
        self._heads[todo[0]] = self._root
        places: dict[int, _Place] = {}
        while todo:
            head = todo.pop()
            before = len(self._heads)
            places[head] = self._place(self._heads[head], MOST_DEPTH)
            todo += list(self._heads)[before:]
        work = {head: place.count for head, place in places.items()}
        for _ in range(CHAIN):
            self._spend(sum(1 + place.members.size() + place.items.size() for place in places.values()))
            longer = {
                head: place.count + max(place.members.most(work), place.items.most(work))
                for head, place in places.items()
            }
            _bound(max(longer.values()))
            if longer == work:
                return
            work = longer

    def _place(self, schema: Mapping[str, Any], levels: int) -> _Place:
        """Count the subschemas for one value.

        Args:
            levels: How many more levels of nested subschemas are allowed for it.
        """
        if id(schema) in self._places:
            known = self._places[id(schema)]
            if known is None:
                raise _Unusable("one of its $refs leads back to itself without descending into the value")
            return known
        if levels == 0:
            raise _Unusable(f"its $refs are followed deeper than {MOST_DEPTH} levels for one value")
        self._refuse_elsewhere(schema)
        self._places[id(schema)] = None
        place = self._own(schema)
        # To find out which members were evaluated, a validator visits the same subschemas a second time.
        times = 2 if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        for each in self._same_value(schema):
            inner = self._place(each, levels - 1)
            self._spend(1 + inner.members.size() + inner.items.size())
            place.count += inner.count * times
            _bound(place.count)
            place.members.add(inner.members, times)
            place.items.add(inner.items, times)
        self._places[id(schema)] = place
        return place

    def _same_value(self, schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the subschemas of `schema` that apply to the same value as `schema` itself."""
        if isinstance(reference := schema.get("$ref"), str):
            yield from _schemas([self._pointed_at(reference)])
        for key in _LISTS:
            yield from _schemas(schema.get(key))
        for key in _SINGLES:
            yield from _schemas([schema.get(key)])
        for key in _BY_NAME:
            named = schema.get(key)
            yield from _schemas(list(named.values()) if isinstance(named, Mapping) else None)

    def _own(self, schema: Mapping[str, Any]) -> _Place:
        """Return a `_Place` that counts only this subschema."""
        place = _Place()
        named = schema.get("properties")
        self._inside(place.members, named if isinstance(named, Mapping) else {}, schema.get("additionalProperties"))
        patterns = schema.get("patternProperties")
        everywhere = list(patterns.values()) if isinstance(patterns, Mapping) else []
        everywhere += [schema.get("propertyNames"), schema.get("unevaluatedProperties")]
        for each in everywhere:
            self._inside(place.members, {}, each)
        items = schema.get("items")
        first = items if isinstance(items, list) else schema.get("prefixItems")
        rest = schema.get("additionalItems") if isinstance(items, list) else items
        self._inside(place.items, dict(enumerate(first)) if isinstance(first, list) else {}, rest)
        for key in ("contains", "unevaluatedItems"):
            self._inside(place.items, {}, schema.get(key))
        return place

    def _inside(self, inside: _Inside, named: Mapping[Any, Any], rest: Any) -> None:
        """Add the subschemas that apply to nested values to `inside`.

        Args:
            named: Subschemas by name or index.
            rest: The subschema for all other values.
        """
        self._spend(1 + len(named))
        others = self._head(rest)
        if others is not None:
            inside.everywhere[others] += 1
        for name, each in named.items():
            counts = inside.at.setdefault(name, Counter())
            if others is not None:
                counts[others] -= 1
            if (head := self._head(each)) is not None:
                counts[head] += 1

    def _head(self, schema: Any) -> int | None:
        if not isinstance(schema, Mapping):
            return None  # true and false cost nothing
        self._heads.setdefault(id(schema), schema)
        return id(schema)

    def _pointed_at(self, reference: str) -> Any:
        """Resolve a JSON pointer (RFC 6901) within the schema."""
        if reference != "#" and not reference.startswith("#/"):
            raise _Unusable(f"its $ref {reference[:80]!r} is not a JSON pointer within the schema (#/...)")
        found: Any = self._root
        for step in unquote(reference).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
                found = found[int(name)]
            else:
                raise _Unusable(f"its $ref {reference[:80]!r} has no target")
            if isinstance(found, Mapping):
                self._refuse_elsewhere(found)
        return found

    def _refuse_elsewhere(self, schema: Mapping[str, Any]) -> None:
        for key in _NOT_LOCAL:
            if isinstance(schema.get(key), str):
                raise _Unusable(f"it has a {key}, which is not supported")
        if schema is not self._root and any(isinstance(schema.get(key), str) for key in self._ids):
            raise _Unusable("one of its subschemas has an $id, which would change the targets of its $refs")

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _Unusable("it is too complex to estimate how long validation takes")


def _schemas(found: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(found, list):
        yield from (each for each in found if isinstance(each, Mapping))


def _add(counts: Counter[int], more: Mapping[int, int], times: int) -> None:
    for each, count in more.items():
        counts[each] += count * times


def _bound(work: int) -> None:
    if work > MOST_WORK:
        raise _Unusable(f"one value may have to be validated against more than {MOST_WORK:,} subschemas")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)

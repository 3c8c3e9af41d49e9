"""Parses and evaluates mappings, which state the inputs of a step and the output of a block. They are data, never code.

A JSON value stands for itself, except for objects with one of these keys:

    {"from": "/fetch/items/0/title"}                  a JSON Pointer (RFC 6901), which begins with a name
    {"from": "/arguments/limit", "default": 10}       with a default value if the path does not exist
    {"text": ["Dear ", {"from": "/arguments/name"}]}  the parts joined as text; other values as JSON
    {"const": {"from": "is not read here"}}           the value as it is

The name is `arguments`, the name of an earlier step, or the item name of a map.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from engine.contract.strict_json import DEEPEST, JsonError, read_json, too_deep

MOST_REFERENCES = 50  # maximum number of references in one mapping
MOST_POINTER = 500  # maximum number of characters of one JSON Pointer
MOST_BYTES = 1 << 20  # approximate maximum size of the output of one mapping or one step, in bytes


class InvalidMapping(ValueError):
    """A JSON value is not a valid mapping or condition. The message says why."""


class UnresolvedReference(ValueError):
    """A mapping cannot be evaluated with the given values. The message says why."""


@dataclass(frozen=True, slots=True)
class Constant:
    value: Any


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to an earlier value.

    Attributes:
        path: The name of the value, followed by keys and indices into it.
        otherwise: The default value if the path does not exist; None if a missing path is a failure.
    """

    path: tuple[str, ...]
    otherwise: Constant | None = None

    @property
    def pointer(self) -> str:
        return "".join("/" + each.replace("~", "~0").replace("/", "~1") for each in self.path)


@dataclass(frozen=True, slots=True)
class Text:
    parts: tuple["Mapped", ...]


@dataclass(frozen=True, slots=True)
class Items:
    items: tuple["Mapped", ...]


@dataclass(frozen=True, slots=True)
class Fields:
    fields: Mapping[str, "Mapped"]


Mapped: TypeAlias = Constant | Reference | Text | Items | Fields


def mapping_of(value: Any) -> Mapped:
    """Parse a mapping from a JSON value of limited depth.

    Raises:
        InvalidMapping: The value is not a mapping.
    """
    mapped = _mapping(value)
    if sum(1 for _ in references(mapped)) > MOST_REFERENCES:
        raise InvalidMapping(f"the mapping has more than {MOST_REFERENCES} references")
    return mapped


def pointer_of(text: Any) -> tuple[str, ...]:
    """Return the parts of a JSON Pointer.

    Raises:
        InvalidMapping: The text is not a valid pointer.
    """
    if not isinstance(text, str) or not text.startswith("/") or len(text) > MOST_POINTER:
        raise InvalidMapping(f"{str(text)[:80]!r} is not a JSON Pointer: write it like /arguments/url or /step/items/0")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def references(mapped: Mapped) -> Iterator[Reference]:
    """Yield every reference in a mapping."""
    match mapped:
        case Reference():
            yield mapped
        case Text(inner) | Items(inner):
            for each in inner:
                yield from references(each)
        case Fields(fields):
            for each in fields.values():
                yield from references(each)


def resolve(mapped: Mapped, scope: Mapping[str, Any]) -> Any:
    """Evaluate a mapping.

    Args:
        scope: The visible values by name.

    Raises:
        UnresolvedReference: A path does not exist, or the result is too large or nested too deeply.
    """
    value = _resolve(mapped, scope)
    if larger_than(value, MOST_BYTES):
        raise UnresolvedReference(f"the value of a mapping is larger than {MOST_BYTES >> 10} KiB: use a smaller part")
    if too_deep(value):  # nesting could grow from step to step and exceed Python's recursion limit
        raise UnresolvedReference(f"the value of a mapping is nested more than {DEEPEST} levels deep")
    return value


def follow(path: tuple[str, ...], scope: Mapping[str, Any]) -> Any:
    """Return the value at a path.

    Raises:
        UnresolvedReference: The path does not exist.
    """
    found: Any = scope
    for number, part in enumerate(path):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdecimal() and len(part) < 10 and int(part) < len(found):  # noqa: PLR2004
            found = found[int(part)]
        else:
            raise UnresolvedReference(
                f"{Reference(path).pointer} does not exist: {_what(found)} has no {part[:80]!r}"
                if number
                else f"there is no value called {part[:80]!r}"
            )
    return found


def larger_than(value: Any, most: int) -> bool:
    """Return whether a value has more than about `most` bytes as JSON. The time this takes is limited by `most`."""
    left, todo = most, [value]
    while todo and left >= 0:
        each = todo.pop()
        left -= 8
        if isinstance(each, str):
            left -= len(each)
        elif isinstance(each, Mapping):
            left -= sum(map(len, each)) + 8 * len(each)
            todo += each.values() if left >= 0 else ()
        elif isinstance(each, list):
            left -= 8 * len(each)
            todo += each if left >= 0 else ()
    return left < 0


def read_bounded_json(text: str, most: int, deepest: int) -> Any:
    """Parse JSON text.

    Args:
        most: The maximum size of the text in bytes.
        deepest: The maximum nesting depth.

    Raises:
        InvalidMapping: The text is invalid, too large or nested too deeply.
    """
    if len(text.encode(errors="replace")) > most:
        raise InvalidMapping(f"it is larger than {most >> 10} KiB")
    try:
        return read_json(text, deepest)
    except JsonError as error:
        raise InvalidMapping(str(error)) from None


def _mapping(value: Any) -> Mapped:
    if isinstance(value, list):
        return Items(tuple(map(_mapping, value)))
    if not isinstance(value, dict):
        return Constant(value)
    keys = value.keys()
    if keys in ({"from"}, {"from", "default"}):
        return Reference(pointer_of(value["from"]), Constant(value["default"]) if "default" in value else None)
    if keys == {"const"}:
        return Constant(value["const"])
    if keys == {"text"}:
        if not isinstance(value["text"], list):
            raise InvalidMapping("`text` must be a list of parts")
        return Text(tuple(map(_mapping, value["text"])))
    if special := keys & {"from", "const", "text"}:
        raise InvalidMapping(
            f"an object with {min(special)!r} and other keys is not a mapping; if it is a plain value, put it in a "
            "`const`"
        )
    return Fields({key: _mapping(each) for key, each in value.items()})


def _resolve(mapped: Mapped, scope: Mapping[str, Any]) -> Any:
    match mapped:
        case Constant(value):
            return value
        case Reference(path, otherwise):
            try:
                return follow(path, scope)
            except UnresolvedReference:
                if otherwise is None:
                    raise
                return otherwise.value
        case Items(items):
            return [_resolve(each, scope) for each in items]
        case Fields(fields):
            return {key: _resolve(each, scope) for key, each in fields.items()}
        case Text(parts):
            return _text([_resolve(each, scope) for each in parts])


def _text(parts: list[Any]) -> str:
    if larger_than(parts, MOST_BYTES):
        raise UnresolvedReference(f"a text is longer than {MOST_BYTES >> 10} KiB: join smaller parts")
    return "".join(each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in parts)


def _what(value: Any) -> str:
    kinds = ((Mapping, "an object"), (list, "a list"), (str, "a string"))
    return next((text for kind, text in kinds if isinstance(value, kind)), json.dumps(value, default=repr)[:80])

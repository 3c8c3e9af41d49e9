"""Mappings: where the inputs of a step, and what a pipeline gives, come from. Data, never code.

A JSON value stands for itself, except for objects with one of these keys:

    {"from": "/fetch/items/0/title"}                  a JSON Pointer (RFC 6901) below a name
    {"from": "/arguments/limit", "default": 10}       with a default where it leads nowhere
    {"text": ["Dear ", {"from": "/arguments/name"}]}  the parts, one after the other, as text; what is no text as JSON
    {"const": {"from": "is not read here"}}           the value as it is

The names are `arguments`, earlier steps, and what a map calls its item.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from engine.contract.strict_json import DEEPEST, JsonError, read_json, too_deep

MOST_REFERENCES = 50  # in one mapping
MOST_POINTER = 500  # characters
MOST_BYTES = 1 << 20  # of what one mapping, or one step, gives, about


class NoMapping(ValueError):
    """A JSON value that is meant as a mapping and is none; says why."""


class Unresolved(ValueError):
    """A mapping that cannot be followed with the values there are; says which and why."""


@dataclass(frozen=True, slots=True)
class Constant:
    value: Any


@dataclass(frozen=True, slots=True)
class From:
    """path: the name, then keys and indices. otherwise: when the path leads nowhere; None: that is a failure."""

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


Mapped: TypeAlias = Constant | From | Text | Items | Fields


def mapping_of(value: Any) -> Mapped:
    """The mapping that a JSON value is. Raises NoMapping. The caller bounds its depth."""
    mapped = _mapping(value)
    if sum(1 for _ in references(mapped)) > MOST_REFERENCES:
        raise NoMapping(f"it refers to more than {MOST_REFERENCES} values")
    return mapped


def pointer_of(text: Any) -> tuple[str, ...]:
    """Its parts. Raises NoMapping."""
    if not isinstance(text, str) or not text.startswith("/") or len(text) > MOST_POINTER:
        raise NoMapping(f"{str(text)[:80]!r} is no JSON Pointer: write it like /arguments/url or /step/items/0")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def references(mapped: Mapped) -> Iterator[From]:
    """Every reference in it."""
    match mapped:
        case From():
            yield mapped
        case Text(inner) | Items(inner):
            for each in inner:
                yield from references(each)
        case Fields(fields):
            for each in fields.values():
                yield from references(each)


def resolve(mapped: Mapped, scope: Mapping[str, Any]) -> Any:
    """What it gives with these values by name. Raises Unresolved, also for what is too large or too deep."""
    value = _resolve(mapped, scope)
    if larger_than(value, MOST_BYTES):
        raise Unresolved(f"a mapping gives more than {MOST_BYTES >> 10} KiB: pass on less")
    if too_deep(value):  # step by step they could get as deep as Python cannot go
        raise Unresolved(f"a mapping gives what is nested more than {DEEPEST} deep")
    return value


def follow(path: tuple[str, ...], scope: Mapping[str, Any]) -> Any:
    """The value at the end of a path. Raises Unresolved."""
    found: Any = scope
    for number, part in enumerate(path):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdecimal() and len(part) < 10 and int(part) < len(found):  # noqa: PLR2004
            found = found[int(part)]
        else:
            raise Unresolved(
                f"{From(path).pointer} leads nowhere: {_what(found)} has no {part[:80]!r}"
                if number
                else f"there is no value called {part[:80]!r}"
            )
    return found


def larger_than(value: Any, most: int) -> bool:
    """Whether it takes about more bytes than that as JSON; does not take more time than that either."""
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


def strict(text: str, most: int, deepest: int) -> Any:
    """The JSON value of a text. Raises NoMapping."""
    if len(text.encode(errors="replace")) > most:
        raise NoMapping(f"it is larger than {most >> 10} KiB")
    try:
        return read_json(text, deepest)
    except JsonError as error:
        raise NoMapping(str(error)) from None


def _mapping(value: Any) -> Mapped:
    if isinstance(value, list):
        return Items(tuple(map(_mapping, value)))
    if not isinstance(value, dict):
        return Constant(value)
    keys = value.keys()
    if keys in ({"from"}, {"from", "default"}):
        return From(pointer_of(value["from"]), Constant(value["default"]) if "default" in value else None)
    if keys == {"const"}:
        return Constant(value["const"])
    if keys == {"text"}:
        if not isinstance(value["text"], list):
            raise NoMapping("`text` is a list of parts")
        return Text(tuple(map(_mapping, value["text"])))
    if special := keys & {"from", "const", "text"}:
        raise NoMapping(
            f"an object with {min(special)!r} and other keys is neither a mapping nor plain: put it in a `const`"
        )
    return Fields({key: _mapping(each) for key, each in value.items()})


def _resolve(mapped: Mapped, scope: Mapping[str, Any]) -> Any:
    match mapped:
        case Constant(value):
            return value
        case From(path, otherwise):
            try:
                return follow(path, scope)
            except Unresolved:
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
        raise Unresolved(f"a text gets longer than {MOST_BYTES >> 10} KiB: pass on less")
    return "".join(each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in parts)


def _what(value: Any) -> str:
    kinds = ((Mapping, "an object"), (list, "a list"), (str, "a text"))
    return next((text for kind, text in kinds if isinstance(value, kind)), json.dumps(value, default=repr)[:80])

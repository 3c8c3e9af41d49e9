"""Translates the types of JSDoc comments, such as ``string[]``, ``"a"|"b"`` and ``{x: number}``, into JSON Schema.

An unknown type is an error, so that a schema never accepts more than its author wrote.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[A-Za-z_$][\w$]*)|(?P<text>"[^"\\]*"|'[^'\\]*')|(?P<number>-?\d+(?:\.\d+)?)|(?P<sign>\[\]|[|<>{}():;,?*]))"""
)
_MOST_CHARS = 1_000
_MOST_DEPTH = 10
_NAMED: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"}, "number": {"type": "number"}, "integer": {"type": "integer"},
    "int": {"type": "integer"}, "boolean": {"type": "boolean"}, "bool": {"type": "boolean"}, "null": {"type": "null"},
    "undefined": {"type": "null"}, "void": {"type": "null"}, "object": {"type": "object"}, "any": {}, "unknown": {},
    "json": {}, "array": {"type": "array"}, "true": {"const": True}, "false": {"const": False},
}  # fmt: skip
NAMES = "string, number, integer, boolean, null, object, any, T[], Record<string, T>, {a: T, b?: T}, or a union T|U"


class UnknownType(Exception):
    """A type cannot be translated."""


def schema_of(text: str) -> dict[str, Any]:
    """Return the JSON Schema of a type.

    Raises:
        UnknownType: The type cannot be translated. The message is the text of the type.
    """
    if len(text) > _MOST_CHARS:
        raise UnknownType(f"{text[:40]}…")
    reader = _Reader(text)
    found = reader.union(0)
    if reader.peek():
        raise UnknownType(text)
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self.whole = text
        self.tokens: list[str] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise UnknownType(text)
            self.tokens.append(match[match.lastgroup or 0])
            at = match.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> bool:
        if self.peek() in wanted and self.peek():
            self.at += 1
            return True
        return False

    def need(self, *wanted: str) -> None:
        if not self.take(*wanted):
            raise UnknownType(self.whole)

    def union(self, depth: int) -> dict[str, Any]:
        if depth > _MOST_DEPTH:
            raise UnknownType(self.whole)
        found = [self.listed(depth)]
        while self.take("|"):
            found.append(self.listed(depth))
        if len(found) == 1:
            return found[0]
        if all(each.keys() == {"const"} for each in found):
            return {"enum": [each["const"] for each in found]}
        return {"anyOf": found}

    def listed(self, depth: int) -> dict[str, Any]:
        nullable = self.take("?")
        found = self.single(depth)
        while self.take("[]"):
            found = {"type": "array", "items": found}
        return {"anyOf": [found, {"type": "null"}]} if nullable else found

    def single(self, depth: int) -> dict[str, Any]:
        if self.take("("):
            found = self.union(depth + 1)
            self.need(")")
            return found
        if self.take("{"):
            return self.fields(depth)
        if self.take("*"):
            return {}
        token = self.peek()
        self.need(token or "a type")
        if token[0] in "\"'":
            return {"const": token[1:-1]}
        if token[0].isdigit() or token[0] == "-":
            return {"const": json.loads(token)}
        return self.named(token.lower(), depth)

    def named(self, name: str, depth: int) -> dict[str, Any]:
        inner: list[dict[str, Any]] = []
        if self.take("<"):
            inner.append(self.union(depth + 1))
            while self.take(","):
                inner.append(self.union(depth + 1))
            self.need(">")
        if name == "promise" and len(inner) == 1:
            return inner[0]
        if name == "array" and len(inner) == 1:
            return {"type": "array", "items": inner[0]}
        if name in ("record", "object") and len(inner) == 2:  # noqa: PLR2004 -- the types of keys and values
            return {"type": "object", "additionalProperties": inner[1]}
        if inner or name not in _NAMED:
            raise UnknownType(self.whole)
        return dict(_NAMED[name])

    def fields(self, depth: int) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required = []
        while not self.take("}"):
            name = self.peek()
            if not re.fullmatch(r"[A-Za-z_$][\w$]*|\"[^\"]*\"|'[^']*'", name):
                raise UnknownType(self.whole)
            self.at += 1
            name = name.strip("\"'")
            if not self.take("?"):
                required.append(name)
            self.need(":")
            properties[name] = self.union(depth + 1)
            if self.peek() != "}":
                self.need(",", ";")
        return {"type": "object", "properties": properties, "required": required}

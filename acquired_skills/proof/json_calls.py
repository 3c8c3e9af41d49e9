"""Converts calls between packed data and named JSON arguments, which questions and predictions use.

JSON has no tuples, sets or dates. The calls in the tests show which types a parameter takes, so JSON arguments are
converted to the types that occur there. No question is asked about a call that changes when it is converted to JSON and
back.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acquired_skills.proof.answers import Data

_TEXTS = frozenset(("date", "datetime", "time", "decimal", "fraction", "uuid", "path"))
_OUTSIDE = frozenset(("files", "place", "clock", "tools"))  # parts of a call besides its arguments
_ITEMS = frozenset(("tuple", "set", "frozenset"))
_LARGEST = int(sys.float_info.max)
_INTEGER = re.compile(r"-?[0-9]{1,300}")


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """Converts calls of one skill.

    Attributes:
        parameters: The names of the skill's parameters, in order.
        examples: The calls that the tests make.
    """

    parameters: Sequence[str]
    examples: Sequence[Data]
    _shapes: dict[str, list[Any]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for call in self.examples:
            for name, value in self._by_name(call).items():
                self._shapes.setdefault(name, []).append(value)

    def arguments(self, call: Data) -> dict[str, Any] | None:
        """Return the arguments of a call as JSON; None if JSON cannot represent the call."""
        if call.keys() & _OUTSIDE or len(call["arguments"]) > len(self.parameters):
            return None
        try:
            found = {name: as_json(value) for name, value in self._by_name(call).items()}
            return found if self.key(self.call(found)) == self.key(call) else None
        except (TypeError, ValueError, KeyError, RecursionError):  # malformed data
            return None

    def call(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the call with these JSON arguments, converted to the types that occur in the tests."""
        positional = len(self.examples[0]["arguments"]) if self.examples else 0
        shaped = {name: _shaped(value, self._shapes.get(name, ())) for name, value in arguments.items()}
        leading = []
        for name in self.parameters[:positional]:
            if name not in shaped:
                break
            leading.append(shaped.pop(name))
        return {"arguments": leading, "named": dict(sorted(shaped.items()))}

    def names(self, call: Data) -> frozenset[str]:
        """Return the names of the parameters that a call passes."""
        return frozenset(self._by_name(call))

    def key(self, call: Data) -> str:
        """Return a key that is the same for calls with the same arguments, whether positional or named."""
        return json.dumps(self._by_name(call), sort_keys=True)

    def _by_name(self, call: Data) -> dict[str, Any]:
        return {**dict(zip(self.parameters, call["arguments"], strict=False)), **call["named"]}


def as_json(value: Any) -> Any:  # noqa: C901, PLR0911 -- one branch per kind
    """Return packed data as the JSON that an author would write for it.

    Raises:
        ValueError: JSON cannot represent the data.
    """
    match value:
        case list():
            return [as_json(each) for each in value]
        case {"dict": [*pairs]}:
            keys = [_key_text(key) for key, _ in pairs]
            if len(set(keys)) != len(keys):
                raise ValueError("two keys are equal as JSON")
            return {key: as_json(each) for key, (_, each) in zip(keys, pairs, strict=True)}
        case {"object": [_, dict(fields)]}:
            return {name: as_json(each) for name, each in fields.items()}
        case {"enum": [_, _, member]}:
            return member
        case {"enum": [_, str(name)]}:
            return name
        case {"int": str(text)}:
            return int(text, 16)
        case dict() if len(value) == 1:
            ((kind, inner),) = value.items()
            if kind in _ITEMS and isinstance(inner, list):
                return [as_json(each) for each in inner]
            if kind in _TEXTS and isinstance(inner, str):
                return inner
    if isinstance(value, dict):
        raise ValueError("JSON has no such value")  # noqa: TRY004 -- a value of an unknown kind
    return value


def _key_text(key: Any) -> str:
    if not isinstance(key, str | int) or isinstance(key, bool):
        raise ValueError("JSON has no such key")  # noqa: TRY004 -- likewise
    return str(key)


def _shaped(value: Any, examples: Sequence[Any]) -> Any:  # noqa: C901, PLR0911 -- one branch per kind
    """Return a JSON value as packed data, with the types that the examples have in the same position."""
    match value:
        case list():
            return _items(value, examples)
        case dict():
            return _fields(value, examples)
        case bool() | None:
            return value
        case int() | float() if (member := _member(value, examples)) is not None:
            return member
        case int() if examples and all(isinstance(each, float) for each in examples) and abs(value) < _LARGEST:
            return float(value)
        case int() if value.bit_length() > 63:  # noqa: PLR2004 -- as `acquired_skills.in_box.packing` does
            return {"int": hex(value)}
        case str() if not any(isinstance(each, str) for each in examples):
            for each in examples:
                if isinstance(each, dict) and len(each) == 1 and (kind := next(iter(each))) in _TEXTS:
                    return {kind: value}
                if isinstance(each, dict) and "enum" in each:
                    return _member(value, examples) or {"enum": [each["enum"][0], value]}
    return value


def _member(value: Any, examples: Sequence[Any]) -> Any:
    """Return the packed member of an enumeration with this value, if one occurs in the examples; None otherwise."""
    members = (each for each in examples if isinstance(each, dict) and "enum" in each)
    return next((each for each in members if each["enum"][2:] == [value]), None)


def _items(value: list[Any], examples: Sequence[Any]) -> Any:
    kind, inner = "", []
    for each in examples:
        items, found = (each, "list") if isinstance(each, list) else (None, "")
        if isinstance(each, dict) and len(each) == 1 and next(iter(each)) in _ITEMS:
            ((found, items),) = each.items()
        if isinstance(items, list):
            kind = kind or found
            inner += items
    shaped = [_shaped(each, inner) for each in value]
    if kind in ("set", "frozenset"):
        return {kind: sorted(shaped, key=repr)}
    return {kind: shaped} if kind == "tuple" else shaped


def _fields(value: dict[str, Any], examples: Sequence[Any]) -> Any:
    named = next((each["object"] for each in examples if isinstance(each, dict) and "object" in each), None)
    if named is not None:
        shapes = [each["object"][1] for each in examples if isinstance(each, dict) and "object" in each]
        fields = {name: _shaped(each, [s[name] for s in shapes if name in s]) for name, each in value.items()}
        return {"object": [named[0], fields]}
    pairs = [pair for each in examples if isinstance(each, dict) and "dict" in each for pair in each["dict"]]
    numbers = bool(pairs) and all(isinstance(key, int) for key, _ in pairs)
    inner = [each for _, each in pairs]
    shaped = []
    for key, each in value.items():
        number = numbers and _INTEGER.fullmatch(key) is not None
        shaped.append([int(key) if number else key, _shaped(each, inner)])
    return {"dict": shaped}

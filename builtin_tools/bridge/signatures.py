"""Signatures of tools, as short as a model can still use: ``weather(place: str, days: int = 3) -> object``."""

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.contract.spec import ToolSpec

_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}
_NOT_IN_NAMES = re.compile(r"\W")
_MOST_CHOICES = 12
_MOST_FIELDS = 12  # of an object; further ones are not shown
_DEEPEST = 3  # nesting of the objects whose fields are shown
_MOST_TYPE = 240  # characters of a type; a longer one is shown with fewer levels
_MOST_SUMMARY = 120  # characters of the summary in a stub
_NONE = " | None"


def identifier(name: str) -> str:
    """Return the attribute of `tools` for this name: each character that cannot be in an identifier becomes ``_``."""
    text = _NOT_IN_NAMES.sub("_", name)
    return f"_{text}" if text[:1].isdigit() or keyword.iskeyword(text) else text


def signature(spec: ToolSpec) -> str:
    """Return the signature of a tool. Optional arguments have their default, or ``...`` if the schema names none."""
    properties = spec.parameters.get("properties", {})
    required = spec.parameters.get("required", ())
    parts = [
        _parameter(name, schema, spec.parameters, required=name in required)
        for name, schema in sorted(properties.items(), key=lambda each: each[0] not in required)
    ]
    returns = f" -> {_short_type(spec.returns, spec.returns)}" if spec.returns is not None else ""
    return f"{identifier(spec.name)}({', '.join(parts)}){returns}"


def stub(spec: ToolSpec) -> str:
    """Return the signature and the summary of a tool in one line."""
    summary = " ".join(spec.summary.split())
    shown = " ".join(signature(spec).split())  # names of arguments may contain line breaks
    return f"{shown}  # {summary if len(summary) <= _MOST_SUMMARY else summary[: _MOST_SUMMARY - 1] + '…'}"


def described(spec: ToolSpec) -> dict[str, Any]:
    """Return everything that the author of a program needs to know about a tool, as JSON."""
    return {
        "name": spec.name,
        "signature": signature(spec),
        "description": spec.description,
        "parameters": dict(spec.parameters),
        "returns": None if spec.returns is None else dict(spec.returns),
    }


def _parameter(name: str, schema: Any, root: Mapping[str, Any], *, required: bool) -> str:
    kind = _short_type(schema, root)
    if required:
        return f"{name}: {kind}"
    default = repr(schema["default"]) if isinstance(schema, Mapping) and "default" in schema else "..."
    if default == "None":
        kind = kind.removesuffix(_NONE)  # the default says it already
    return f"{name}: {kind} = {default}"


def _short_type(schema: Any, root: Mapping[str, Any]) -> str:
    """Return a type of at most `_MOST_TYPE` characters if possible, with the fields of as many levels as fit."""
    for deepest in range(_DEEPEST, 0, -1):
        text = _type(schema, root, deepest)
        if len(text) <= _MOST_TYPE:
            return text
    return _type(schema, root, 0)


def _type(schema: Any, root: Mapping[str, Any], levels: int) -> str:
    """Return a type. Objects with known fields are shown as ``{name: type, optional?: type}``, for so many levels."""
    schema = _resolved(schema, root)
    choices = schema.get("enum")
    if isinstance(choices, list | tuple) and len(choices) <= _MOST_CHOICES:
        return " | ".join(repr(choice) for choice in choices)
    either = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(either, list | tuple) and either:
        return " | ".join(dict.fromkeys(_type(each, root, levels) for each in either))
    kind = schema.get("type")
    if isinstance(kind, list | tuple):
        return " | ".join(_TYPES.get(each, "object") for each in kind if isinstance(each, str))
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"list[{_type(schema['items'], root, levels)}]"
    properties = schema.get("properties")
    if kind == "object" and levels and isinstance(properties, Mapping) and properties:
        return _fields(properties, schema.get("required", ()), root, levels - 1)
    return _TYPES.get(kind, "object") if isinstance(kind, str) else "object"


def _fields(properties: Mapping[str, Any], required: Sequence[str], root: Mapping[str, Any], levels: int) -> str:
    names = list(properties)
    shown = [
        f"{name}{'' if name in required else '?'}: {_type(properties[name], root, levels)}"
        for name in names[:_MOST_FIELDS]
    ]
    return f"{{{', '.join([*shown, '…'] if len(names) > _MOST_FIELDS else shown)}}}"


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema, or the definition that it refers to; empty if that is not a schema with keywords."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            break
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        kinds = root.get("$defs")
        schema = kinds.get(reference.removeprefix("#/$defs/")) if isinstance(kinds, Mapping) else None
    return {}

"""Signatures of tools, as short as a model can still use: ``weather(place: str, days: int = 3) -> object``."""

import keyword
import re
from collections.abc import Mapping
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
_MOST_CHOICES = 6


def identifier(name: str) -> str:
    """Return the attribute of `tools` for this name: each character that cannot be in an identifier becomes ``_``."""
    text = _NOT_IN_NAMES.sub("_", name)
    return f"_{text}" if text[:1].isdigit() or keyword.iskeyword(text) else text


def signature(spec: ToolSpec) -> str:
    """Return the signature of a tool. Optional arguments have their default, or ``...`` if the schema names none."""
    properties = spec.parameters.get("properties", {})
    required = spec.parameters.get("required", ())
    parts = [
        f"{name}: {_type(schema)}" + ("" if name in required else f" = {_default(schema)}")
        for name, schema in sorted(properties.items(), key=lambda each: each[0] not in required)
    ]
    returns = f" -> {_type(spec.returns)}" if spec.returns is not None else ""
    return f"{identifier(spec.name)}({', '.join(parts)}){returns}"


def stub(spec: ToolSpec) -> str:
    """Return the signature and the summary of a tool in one line."""
    return f"{signature(spec)}  # {' '.join(spec.summary.split())}"


def described(spec: ToolSpec) -> dict[str, Any]:
    """Return everything that the author of a program needs to know about a tool, as JSON."""
    return {
        "name": spec.name,
        "signature": signature(spec),
        "description": spec.description,
        "parameters": dict(spec.parameters),
        "returns": None if spec.returns is None else dict(spec.returns),
    }


def _type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "object"
    choices = schema.get("enum")
    if isinstance(choices, list | tuple) and len(choices) <= _MOST_CHOICES:
        return " | ".join(repr(choice) for choice in choices)
    either = schema.get("anyOf") or schema.get("oneOf")
    if either:
        return " | ".join(dict.fromkeys(_type(each) for each in either))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_TYPES.get(each, "object") for each in kind)
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"list[{_type(schema['items'])}]"
    return _TYPES.get(kind, "object") if isinstance(kind, str) else "object"


def _default(schema: Any) -> str:
    return repr(schema["default"]) if isinstance(schema, Mapping) and "default" in schema else "..."

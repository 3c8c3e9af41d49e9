"""Converts a tool's spec to JSON for models, commands and HTTP clients."""

from dataclasses import asdict, fields
from typing import Any

from engine.contract.spec import ToolSpec

_NAMES = tuple(each.name for each in fields(ToolSpec))


def spec_to_json(spec: ToolSpec, *names: str) -> dict[str, Any]:
    """Return the named fields of the spec, or all fields if no names are given."""
    return {name: _plain(spec, name) for name in names or _NAMES}


def _plain(spec: ToolSpec, name: str) -> Any:
    value = getattr(spec, name)
    match name:
        case "parameters" | "meta":
            return dict(value)
        case "returns":
            return None if value is None else dict(value)
        case "annotations":
            return asdict(value)
        case "tag":
            return None if value is None else asdict(value)
        case "origin":
            return value.value
    return list(value) if isinstance(value, tuple) else value

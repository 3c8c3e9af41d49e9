"""Converts a `ToolSpec` to an MCP tool, and a `ToolResult` to an MCP call result.

Source: https://modelcontextprotocol.io/specification, server/tools, with the types of the official SDK.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from engine.contract.result import ToolResult
from engine.contract.spec import ToolSpec

META = "knackbox/"  # the protocol requires a prefix for keys in `_meta`
WRAPPED = "result"  # the key under which an output that is not an object is wrapped, as in FastMCP


def tool_to_mcp_format(tool: ToolSpec) -> Tool:
    """Convert a tool. `destructive_hint` is always set, because the protocol's default is true."""
    hints = tool.annotations
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema={"type": "object", **tool.parameters},
        output_schema=None if tool.returns is None else _output_schema(tool.returns),
        annotations=ToolAnnotations(
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
        ),
        _meta={f"{META}version": tool.version, f"{META}category": tool.category, f"{META}origin": tool.origin.value},
    )


def tools_to_mcp_format(tools: Iterable[ToolSpec]) -> list[Tool]:
    return [tool_to_mcp_format(tool) for tool in tools]


def result_to_mcp_format(result: ToolResult, returns: Mapping[str, Any] | None = None) -> CallToolResult:
    """Convert a result: its text for the model, its structured value, and the details of a failure (in `_meta`).

    The protocol requires `structured_content` to be a JSON object. If the tool's output schema (`returns`) does not
    describe objects, the value is therefore wrapped in one. Without an output schema, a value that is not an object
    appears only in the text.
    """
    output = result.output
    if result.success and returns is not None and not _describes_objects(returns, returns):
        output = {WRAPPED: output}
    meta: dict[str, Any] = {
        f"{META}call_id": result.audit.call_id,
        f"{META}duration_ms": round(result.audit.duration_ms, 3),
        f"{META}end": result.audit.end,
    }
    if result.audit.data:
        meta[f"{META}audit"] = dict(result.audit.data)
    if result.failure is not None:
        meta[f"{META}failure_class"] = result.failure.failure_class.value
        meta[f"{META}reason"] = result.failure.reason
    return CallToolResult(
        content=[TextContent(type="text", text=result.text)] if result.text else [],
        structured_content=plain_object(output),
        is_error=not result.success,
        _meta=meta,
    )


def _output_schema(returns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of `structured_content`, which must describe objects."""
    if _describes_objects(returns, returns):
        return {"type": "object", **returns}
    inner = dict(returns)
    shared = {"$defs": inner.pop("$defs")} if "$defs" in inner else {}
    return {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], **shared}


def _describes_objects(schema: Any, whole: Mapping[str, Any], levels: int = 20) -> bool:
    """Return whether the schema can only match objects, judging by its type, references and unions."""
    if not isinstance(schema, Mapping) or levels == 0:
        return False
    if "type" in schema:
        return bool(schema["type"] == "object")
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        return _describes_objects(whole.get("$defs", {}).get(name), whole, levels - 1)
    branches = schema.get("anyOf") or schema.get("oneOf") or []
    return bool(branches) and all(_describes_objects(each, whole, levels - 1) for each in branches)


def plain_object(value: Any) -> dict[str, Any] | None:
    """Return the value as a JSON object, or None if it is something else."""
    if not isinstance(value, dict):
        return None
    copied: dict[str, Any] = json.loads(json.dumps(value, default=str))
    return copied

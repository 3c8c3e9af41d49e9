"""`ToolSpec` -> MCP tool, `ToolResult` -> MCP call result.

Source: https://modelcontextprotocol.io/specification, server/tools, in the official SDK's own types.
"""

import json
from collections.abc import Iterable
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from engine.contract.result import ToolResult
from engine.contract.spec import ToolSpec

META = "knackbox/"  # our keys in `_meta`; the protocol asks for a prefix


def tool_to_mcp_format(tool: ToolSpec) -> Tool:
    """One MCP tool. `destructive_hint` is always said, since the protocol takes silence for yes."""
    hints = tool.annotations
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema={"type": "object", **tool.parameters},
        annotations=ToolAnnotations(
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
        ),
        _meta={f"{META}version": tool.version, f"{META}category": tool.category, f"{META}origin": tool.origin.value},
    )


def tools_to_mcp_format(tools: Iterable[ToolSpec]) -> list[Tool]:
    return [tool_to_mcp_format(tool) for tool in tools]


def result_to_mcp_format(result: ToolResult) -> CallToolResult:
    """The text a model reads, the structured value beside it, and why it failed in `_meta`.

    `structured_content` is a JSON object in every version of the protocol, so any other value is left to the text.
    """
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
        structured_content=plain_object(result.output),
        is_error=not result.success,
        _meta=meta,
    )


def plain_object(value: Any) -> dict[str, Any] | None:
    """The value as a JSON object that survives the wire, or None when it is something else."""
    if not isinstance(value, dict):
        return None
    copied: dict[str, Any] = json.loads(json.dumps(value, default=str))
    return copied

"""An MCP server on stdio, made with the official SDK: ``python -m bench.programs.mcp_server MODULE``."""

import sys
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from pydantic import Field

from bench.programs.operations import Operation, operations, perform
from bench.programs.records import Tables, tables

_KINDS: dict[str, Any] = {"integer": int, "string": str, "object": dict[str, Any]}


def server_of(module: str) -> MCPServer:
    """Return a server with the tools of a module, and records of its own."""
    server, records = MCPServer(module), tables()
    for operation in operations(module):
        hints = ToolAnnotations(read_only_hint=operation.reads, destructive_hint=not operation.reads)
        server.tool(name=operation.name, description=operation.description, annotations=hints)(
            _function(records, operation)
        )
    return server


def _function(records: Tables, operation: Operation) -> Callable[..., dict[str, Any]]:
    """Return a function with the parameters of an operation, from which the SDK makes the schema."""

    def run(**given: Any) -> dict[str, Any]:
        return perform(records, operation, given)

    parameters = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if required else 0,
            annotation=Annotated[_KINDS[kind], Field(description=description)],
        )
        for name, kind, description, required in operation.parameters
    ]
    run.__signature__ = Signature(parameters, return_annotation=dict[str, Any])  # type: ignore[attr-defined]
    return run


if __name__ == "__main__":
    server_of(sys.argv[1]).run("stdio")

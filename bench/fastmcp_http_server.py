"""The peer of `bench.mcp_http`: a FastMCP server with a tool that does nothing: ``… PORT``."""

import sys

from fastmcp import FastMCP

server = FastMCP("peer")


@server.tool
async def nothing(value: int) -> int:
    """Return the value."""
    return value


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="ERROR")

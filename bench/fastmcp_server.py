"""The peer of `bench.start`: a FastMCP server with one tool, which uses stdin and stdout."""

from fastmcp import FastMCP

server = FastMCP("peer")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    server.run(show_banner=False)

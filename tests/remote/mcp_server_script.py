"""An MCP server for tests, made with the official SDK: ``mcp_server_script.py stdio|http FOLDER``.

It records what happens in files of the folder. With HTTP, the first line on stdout is its port.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

FOLDER = Path(sys.argv[2])
PROTOCOL = os.dup(1)  # the SDK gives tools another stdout
HARMLESS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True)

server = MCPServer("far", instructions="Far away.")


@server.tool(annotations=HARMLESS)
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool()
def pid() -> int:
    """Return the process id."""
    return os.getpid()


@server.tool()
def environment() -> list[str]:
    """Return the names of all environment variables."""
    return sorted(os.environ)


@server.tool()
def point() -> dict[str, int]:
    """Return a structured value."""
    return {"x": 1, "y": 2}


@server.tool()
def picture() -> Image:
    """Return a picture."""
    return Image(data=b"\x89PNG not really", format="png")


@server.tool()
def fails(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@server.tool()
async def steps(ctx: Context) -> str:
    """Report progress."""
    for number in (1, 2, 3):
        await ctx.report_progress(number, 4, f"step {number}")
    return "done"


@server.tool()
async def waits() -> str:
    """Wait for a long time, and record a cancellation."""
    (FOLDER / "began").touch()
    try:
        await asyncio.sleep(600)
    except BaseException:
        (FOLDER / "cancelled").touch()
        raise
    return "never"


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool."""

    def grown() -> str:
        """A tool that is added later."""
        return "grown"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grew"


@server.tool()
def dies() -> None:
    """Exit without an answer."""
    os._exit(3)


@server.tool()
def chatters() -> str:
    """Print many lines on stderr."""
    for number in range(5_000):
        print("line", number, "of many" * 50, file=sys.stderr)
    return "said"


@server.tool()
def floods() -> str:
    """Send an endless line, bypassing the SDK."""
    try:
        while True:
            os.write(PROTOCOL, b"x" * 65536)
    except OSError:
        return "the pipe was closed"


def stubborn() -> None:
    """Ignore requests to exit, and start a child process that ignores them too."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"])
    (FOLDER / "child").write_text(str(child.pid))
    os.dup2(os.open("/dev/null", os.O_RDONLY), 9)


def lists_much(size: int) -> None:
    """Offer 100 tools with long descriptions and schemas of this size, and two whose schemas are unusable."""
    deep: dict[str, object] = {}
    for _ in range(100):
        deep = {"type": "object", "not": deep}
    schemas = {f"pid{number}": {"type": "object", "description": "y" * size} for number in range(100)}
    for name, schema in {**schemas, "deep": deep, "large": {"type": "object", "description": "x" * 100_000}}.items():
        server.add_tool(pid, name=name, description="x" * 9_000)
        server._tool_manager._tools[name].parameters = schema  # it would make one of the function


if __name__ == "__main__":
    with (FOLDER / "starts").open("a") as stream:
        stream.write(f"{os.getpid()}\n")
    if (FOLDER / "dies at once").exists():
        sys.exit("it does not start today")
    if (FOLDER / "stubborn").exists():
        stubborn()
    if (FOLDER / "lists much").exists():
        lists_much(int((FOLDER / "lists much").read_text()))
    if sys.argv[1] == "stdio":
        server.run("stdio")
        if (FOLDER / "stubborn").exists():
            signal.pause()
    else:
        import uvicorn  # a process that speaks on its pipes starts sooner without

        listening = socket.create_server(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 else 0))
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(config).run(sockets=[listening])

"""`knackbox mcp`: the engine as an MCP server on stdin and stdout. Nothing but the protocol goes to stdout."""

import asyncio

import typer

from engine.app.engine import Engine
from engine.app.sandboxes import unsafe_sandbox
from engine.faces.cli.shared import options, settings_of
from engine.faces.mcp.server import serve_stdio

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def mcp(ctx: typer.Context) -> None:
    """Serve the tools over MCP (stdio) until the client closes the connection."""
    home, settings = settings_of(ctx)
    sandbox = unsafe_sandbox() if options(ctx).unsafe_no_sandbox else None
    asyncio.run(serve_stdio(lambda people: Engine.open(home.root, settings=settings, sandbox=sandbox, people=people)))

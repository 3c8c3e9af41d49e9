"""`knackbox mcp`: the engine as an MCP server on stdin and stdout. Nothing but the protocol goes to stdout."""

import asyncio
from typing import Annotated

import typer

from engine.app.engine import Engine
from engine.app.sandboxes import unsafe_sandbox
from engine.contract.turn import Turn
from engine.faces.cli.settings import settings_of
from engine.faces.cli.shared import Agent, options
from engine.faces.mcp.server import serve_stdio

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def mcp(
    ctx: typer.Context,
    *,
    allow_list: Annotated[str, typer.Option("--allow-list", help="As an agent of this allow-list.")] = "",
    agent: Agent = None,
) -> None:
    """Serve the tools over MCP (stdio) until the client closes the connection."""
    home, settings = settings_of(ctx)
    sandbox = unsafe_sandbox() if options(ctx).unsafe_no_sandbox else None

    async def turn_of(engine: Engine) -> Turn:
        turn = Turn(allowed=engine.resolve_allow_list(allow_list) if allow_list else None)
        return await engine.turn_of(agent, turn) if agent else turn

    asyncio.run(
        serve_stdio(lambda people: Engine.open(home.root, settings=settings, sandbox=sandbox, people=people), turn_of)
    )

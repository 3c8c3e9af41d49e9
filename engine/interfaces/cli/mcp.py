"""`knackbox mcp`: the engine as an MCP server on stdin and stdout. Nothing but the protocol goes to stdout."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated

import typer

from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Agent, options
from engine.interfaces.mcp.clients import Clients
from engine.interfaces.mcp.opening import McpHandler
from engine.interfaces.mcp.server import serve_stdio

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def mcp(
    ctx: typer.Context,
    *,
    allow_list: Annotated[str, typer.Option("--allow-list", help="As an agent of this allow-list.")] = "",
    agent: Agent = None,
) -> None:
    """Serve the tools over MCP (stdio) until the client closes the connection, or a signal asks to stop."""
    home, settings = settings_of(ctx)
    unsafe = options(ctx).unsafe_no_sandbox

    @asynccontextmanager
    async def open_handler(clients: Clients) -> AsyncIterator[McpHandler]:
        configured = await asyncio.to_thread(_load)
        async with configured(clients, home, settings, allow_list=allow_list, agent=agent, unsafe=unsafe) as handler:
            yield handler

    asyncio.run(serve_stdio(open_handler))


def _load() -> Callable[..., AbstractAsyncContextManager[McpHandler]]:
    from engine.interfaces.mcp.configured import configured_handler  # noqa: PLC0415 -- `initialize` does not wait for an engine

    return configured_handler

"""`knackbox mcp`: serves the engine over MCP on stdin and stdout. Only protocol messages go to stdout."""

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
    allow_list: Annotated[str, typer.Option("--allow-list", help="The name of the allow-list to apply.")] = "",
    agent: Agent = None,
) -> None:
    """Serve the tools over MCP (stdio) until the client closes the connection or a signal stops the server."""
    home, settings = settings_of(ctx)
    unsafe = options(ctx).unsafe_no_sandbox

    @asynccontextmanager
    async def open_handler(clients: Clients) -> AsyncIterator[McpHandler]:
        configured_handler = await asyncio.to_thread(_import_handler)
        async with configured_handler(
            clients, home, settings, allow_list=allow_list, agent=agent, unsafe=unsafe
        ) as handler:
            yield handler

    asyncio.run(serve_stdio(open_handler))


def _import_handler() -> Callable[..., AbstractAsyncContextManager[McpHandler]]:
    # Imported late, so that `initialize` is answered without waiting for the imports of an engine.
    from engine.interfaces.mcp.engine_handler import configured_handler  # noqa: PLC0415

    return configured_handler

"""`knackbox mcp`: serves the engine over MCP, on stdin and stdout or over HTTP. `knackbox mcp import`: see there.

On stdio, only protocol messages go to stdout.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from engine.contract.failure import ConfigError
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Agent, Json, options
from engine.interfaces.mcp.clients import Clients
from engine.interfaces.mcp.opening import McpHandler
from engine.interfaces.mcp.server import serve_stdio

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, invoke_without_command=True)


class ListedTools(StrEnum):
    """What a client lists."""

    ALL = "all"
    CODE = "code"


@app.callback()
def mcp(
    ctx: typer.Context,
    *,
    tools: Annotated[
        ListedTools | None,
        typer.Option(
            "--tools",
            help="List all tools, or only three (code): search_tools, describe_tool and execute, whose programs can "
            "call all tools.",
        ),
    ] = None,
    allow_list: Annotated[str, typer.Option("--allow-list", help="The name of the allow-list to apply.")] = "",
    agent: Agent = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP at /mcp. Clients need a token of knackbox serve.")
    ] = False,
    host: Annotated[str | None, typer.Option("--host", help="With --http: the address; by default loopback.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="With --http: the port; 0 for any free one.")
    ] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="With --http: allow an address that is not loopback.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve the tools over MCP until the client closes the connection or a signal stops the server."""
    if ctx.invoked_subcommand is not None:
        return
    if http and (allow_list or agent):
        raise ConfigError("--http: tokens decide what clients may do. Use `knackbox serve token add --agent ID`.")
    if not http and (host is not None or port is not None or allow_remote):
        raise ConfigError("--host, --port and --allow-remote need --http.")
    home, settings = settings_of(ctx)
    listed = ListedTools(settings.http.mcp_tools) if tools is None and http else tools or ListedTools.ALL
    if http:
        # Imported late, so that a server on stdio answers `initialize` without waiting for these imports.
        serving = importlib.import_module("engine.interfaces.cli.serve")
        chosen = settings.model_copy(update={"http": settings.http.model_copy(update={"mcp_tools": listed.value})})
        place = serving.Listening(host, port, allow_remote)
        serving.serve_until_interrupted(ctx, home, chosen, place, as_json=as_json, api=False)
        return
    unsafe = options(ctx).unsafe_no_sandbox

    @asynccontextmanager
    async def open_handler(clients: Clients) -> AsyncIterator[McpHandler]:
        configured_handler = await asyncio.to_thread(_import_handler)
        async with configured_handler(
            clients,
            home,
            settings,
            allow_list=allow_list,
            agent=agent,
            unsafe=unsafe,
            code_only=listed is ListedTools.CODE,
        ) as handler:
            yield handler

    asyncio.run(serve_stdio(open_handler))


@app.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="The client's configuration, such as claude_desktop_config.json.")],
    restore: Annotated[
        bool, typer.Option("--restore", help="Give the servers back: undo the import of this file.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Move the MCP servers of a client's configuration behind Knackbox. The client then lists only three tools."""
    # Imported late, so that a server on stdio answers `initialize` without waiting for these imports.
    importing = importlib.import_module("engine.interfaces.cli.mcp_import")
    importing.import_servers(ctx, file, restore=restore, as_json=as_json)


def _import_handler() -> Callable[..., AbstractAsyncContextManager[McpHandler]]:
    # Imported late, so that `initialize` is answered without waiting for the imports of an engine.
    from engine.interfaces.mcp.engine_handler import configured_handler  # noqa: PLC0415

    return configured_handler

"""`knackbox serve`: serves the tools over HTTP. `knackbox serve token`: manages the server's tokens."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer

from engine.app.databases import RECORDS
from engine.app.engine import Engine
from engine.app.home import Home
from engine.app.people import People
from engine.app.resuming import resuming_runs
from engine.app.sandboxes import unsafe_sandbox
from engine.app.settings import HttpSettings, Settings
from engine.contract.failure import ConfigError
from engine.contract.spec import PermissionLevel
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, options, say, wants_json
from engine.interfaces.cli.tables import print_table
from engine.interfaces.http.edge import MCP_PATH
from engine.interfaces.http.listen import listen, names_of, url_of
from engine.interfaces.http.server import serve as serve_http
from engine.interfaces.http.tokens import Caller, Tokens
from engine.stores.clock import SystemClock
from engine.stores.records import Records

T = TypeVar("T")
FIRST = "first"

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, invoke_without_command=True)
token_app = typer.Typer(pretty_exceptions_enable=False, no_args_is_help=True, help="Tokens of the HTTP server.")
app.add_typer(token_app, name="token")


@app.callback()
def serve(
    ctx: typer.Context,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on; by default loopback.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 for any free one.")
    ] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow an address that is not loopback.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve the tools over HTTP until interrupted. Every request needs a token."""
    if ctx.invoked_subcommand is not None:
        return
    home, settings = settings_of(ctx)
    serve_until_interrupted(ctx, home, settings, Listening(host, port, allow_remote), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens. None means the configured value."""

    host: str | None = None
    port: int | None = None
    allow_remote: bool = False


def serve_until_interrupted(
    ctx: typer.Context, home: Home, settings: Settings, place: Listening, *, as_json: bool, api: bool = True
) -> None:
    """Serve over HTTP until SIGINT or SIGTERM.

    Args:
        ctx: The context of the command.
        home: The home of the engine.
        settings: The settings of the engine.
        place: Where to listen.
        as_json: Whether to print the URL as JSON on stdout.
        api: Whether the server has its own routes besides /health and /mcp.

    Raises:
        ConfigError: The server cannot listen there, or there is no token.
    """
    chosen = settings.http
    if chosen.module_name in {*settings.modules.module_services, *settings.mcp_servers}:
        raise ConfigError(
            f"{home.config}: http.module_name: another module is also called {chosen.module_name}. Rename one of them."
        )
    where = place.host or chosen.host
    port = chosen.port if place.port is None else place.port
    listening = listen(where, port, allow_remote=place.allow_remote or chosen.allow_remote)
    with closing(listening):
        token = with_tokens(home, lambda tokens: first_token(tokens, chosen, remote=place.allow_remote))
        if token:
            say(f"a first token was created, with the permission user. It is shown only this once: {token}")
        names = names_of(listening, where, chosen.hosts)
        sandbox = unsafe_sandbox() if options(ctx).unsafe_no_sandbox else None
        url = url_of(listening) if api else f"{url_of(listening)}{MCP_PATH}"

        def started() -> None:
            if wants_json(ctx, as_json):
                emit_json({"url": url})
            say(f"serving at {url} until interrupted.")

        @asynccontextmanager
        async def opening(people: People) -> AsyncIterator[Engine]:
            async with (
                Engine.open(home.root, settings=settings, sandbox=sandbox, people=people) as engine,
                resuming_runs(engine),
            ):
                yield engine

        asyncio.run(serve_http(opening, listening, names, chosen, started, jobs=sandbox is None, api=api))


@token_app.command("add")
def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The name of the token, such as the name of a program.")],
    *,
    permission: Annotated[
        PermissionLevel, typer.Option("--permission", help="The permission of the token's user.")
    ] = "user",
    user: Annotated[str, typer.Option("--user", help="The user of the token; by default the name of the token.")] = "",
    agent: Annotated[
        str, typer.Option("--agent", help="The agent that uses the token. A registered agent is limited by its entry.")
    ] = "main",
    module: Annotated[
        list[str] | None, typer.Option("--module", help="A module that the token may use. Repeatable.")
    ] = None,
    cap: Annotated[
        list[str] | None, typer.Option("--cap", help="A cap (right) for an agent that is not registered. Repeatable.")
    ] = None,
    approves: Annotated[
        bool,
        typer.Option(
            "--approves",
            help="Allow the token to approve calls of the user's other tokens, and its MCP clients to ask their user.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a token and print it. It cannot be shown again."""
    caller = Caller(
        name=name,
        user=user or name,
        permission=permission,
        agent=agent,
        modules=frozenset(module) if module else None,
        caps=frozenset(cap or ()),
        approves=approves,
    )
    token = with_tokens(settings_of(ctx)[0], lambda tokens: tokens.add(caller))
    if wants_json(ctx, as_json):
        emit_json({"name": name, "token": token})
        return
    emit(token)
    say(f"created the token {name}. It cannot be shown again.")


@token_app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """List the tokens by name, without their values."""
    known = with_tokens(settings_of(ctx)[0], lambda tokens: tokens.all())
    if wants_json(ctx, as_json):
        emit_json({"tokens": [as_row(caller) for caller in known]})
    elif known:
        rows = [[str(cell) for cell in as_row(caller).values()] for caller in known]
        print_table(("name", "user", "agent", "permission", "modules", "caps", "approves"), rows)
    else:
        say("there are no tokens. Create one with knackbox serve token add NAME.")


@token_app.command("remove")
def remove(ctx: typer.Context, name: Annotated[str, typer.Argument(help="The token's name.")]) -> None:
    """Remove a token. Running servers refuse it from now on."""
    if not with_tokens(settings_of(ctx)[0], lambda tokens: tokens.remove(name)):
        fail(f"there is no token called {name}. knackbox serve token list shows all tokens.", Exit.USAGE)
    say(f"removed the token {name}.")


def first_token(tokens: Tokens, settings: HttpSettings, *, remote: bool) -> str:
    """Create and return a token if there is none yet; otherwise return "".

    The token is shown only to a person who starts a loopback server from a terminal, because a program that reads the
    output might store it.

    Raises:
        ConfigError: There is no token, and the server is not a loopback server that was started from a terminal.
    """
    if tokens.all():
        return ""
    if remote or settings.allow_remote or not sys.stderr.isatty():
        raise ConfigError("there is no token yet. Create one with knackbox serve token add NAME, then serve again.")
    return tokens.add(Caller(FIRST, "local"))


def as_row(caller: Caller) -> dict[str, object]:
    """Return the stored fields of the token that identifies a caller."""
    return {
        "name": caller.name,
        "user": caller.user,
        "agent": caller.agent,
        "permission": caller.permission,
        "modules": "all" if caller.modules is None else sorted(caller.modules),
        "caps": sorted(caller.caps),
        "approves": caller.approves,
    }


def with_tokens(home: Home, work: Callable[[Tokens], T]) -> T:
    """Open the tokens of a home and call a function with them."""
    home.create()
    with closing(Records.open(home.records_url, contents=RECORDS)) as records:
        return work(Tokens(records, SystemClock()))

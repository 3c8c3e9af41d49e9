"""`knackbox serve`: the tools over HTTP; `knackbox serve token`: who may use them."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Annotated, TypeVar

import typer

from engine.app.databases import RECORDS
from engine.app.engine import Engine
from engine.app.home import Home
from engine.app.sandboxes import unsafe_sandbox
from engine.app.settings import HttpSettings
from engine.contract.failure import ConfigError
from engine.contract.spec import PermissionLevel
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, options, say, wants_json
from engine.interfaces.cli.tables import print_table
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
    host: Annotated[str | None, typer.Option("--host", help="Where to listen; loopback by default.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = None,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Listen at more than loopback.")] = False,
    as_json: Json = False,
) -> None:
    """Serve the tools over HTTP until interrupted. Every request needs a token."""
    if ctx.invoked_subcommand is not None:
        return
    home, settings = settings_of(ctx)
    chosen = settings.http
    if chosen.module_name in {*settings.modules.module_services, *settings.mcp_servers}:
        raise ConfigError(
            f"{home.config}: http.module_name: there is another module called {chosen.module_name}. Rename one of them."
        )
    where = host or chosen.host
    listening = listen(where, chosen.port if port is None else port, allow_remote=allow_remote or chosen.allow_remote)
    with closing(listening):
        made = with_tokens(home, lambda tokens: first_token(tokens, chosen, remote=allow_remote))
        if made:
            say(f"a first token was made, with the permission user, and is shown this once: {made}")
        names = names_of(listening, where, chosen.hosts)
        sandbox = unsafe_sandbox() if options(ctx).unsafe_no_sandbox else None
        url = url_of(listening)

        def started() -> None:
            if wants_json(ctx, as_json):
                emit_json({"url": url})
            say(f"serving at {url} until interrupted.")

        asyncio.run(
            serve_http(
                lambda people: Engine.open(home.root, settings=settings, sandbox=sandbox, people=people),
                listening,
                names,
                chosen,
                started,
            )
        )


@token_app.command("add")
def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="What the token is for, such as a program's name.")],
    *,
    permission: Annotated[PermissionLevel, typer.Option("--permission", help="Of its user.")] = "user",
    user: Annotated[str, typer.Option("--user", help="Whom it stands for; its name by default.")] = "",
    agent: Annotated[
        str, typer.Option("--agent", help="Which agent of that user; a registered one is bounded by its entry.")
    ] = "main",
    module: Annotated[list[str] | None, typer.Option("--module", help="May reach this module; repeat it.")] = None,
    cap: Annotated[
        list[str] | None, typer.Option("--cap", help="What its agent holds, unless that is registered; repeat it.")
    ] = None,
    approves: Annotated[bool, typer.Option("--approves", help="May approve calls of its user's other tokens.")] = False,
    as_json: Json = False,
) -> None:
    """Make a token and print it, once."""
    caller = Caller(
        name=name,
        user=user or name,
        permission=permission,
        agent=agent,
        modules=frozenset(module) if module else None,
        caps=frozenset(cap or ()),
        approves=approves,
    )
    made = with_tokens(settings_of(ctx)[0], lambda tokens: tokens.add(caller))
    if wants_json(ctx, as_json):
        emit_json({"name": name, "token": made})
        return
    emit(made)
    say(f"this is the token {name}; it cannot be shown again.")


@token_app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """The tokens by name, without themselves."""
    known = with_tokens(settings_of(ctx)[0], lambda tokens: tokens.all())
    if wants_json(ctx, as_json):
        emit_json({"tokens": [as_row(caller) for caller in known]})
    elif known:
        rows = [[str(cell) for cell in as_row(caller).values()] for caller in known]
        print_table(("name", "user", "agent", "permission", "modules", "caps", "approves"), rows)
    else:
        say("there are no tokens. knackbox serve token add NAME makes one.")


@token_app.command("remove")
def remove(ctx: typer.Context, name: Annotated[str, typer.Argument(help="The token's name.")]) -> None:
    """Refuse a token from now on, also by servers that run."""
    if not with_tokens(settings_of(ctx)[0], lambda tokens: tokens.remove(name)):
        fail(f"there is no token called {name}. knackbox serve token list shows those there are.", Exit.USAGE)
    say(f"the token {name} is refused from now on.")


def first_token(tokens: Tokens, settings: HttpSettings, *, remote: bool) -> str:
    """A token, made when there is none yet; else "". Raises ConfigError where nobody should be shown one.

    A person at a terminal alone should: anything else that reads our output may keep it.
    """
    if tokens.all():
        return ""
    if remote or settings.allow_remote or not sys.stderr.isatty():
        raise ConfigError("there is no token yet. Make one with knackbox serve token add NAME, then serve again.")
    return tokens.add(Caller(FIRST, "local"))


def as_row(caller: Caller) -> dict[str, object]:
    """What is known of a token."""
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
    """Do something with the tokens of a home. Raises ConfigError."""
    home.create()
    with closing(Records.open(home.records_url, contents=RECORDS)) as records:
        return work(Tokens(records, SystemClock()))

"""`knackbox modules …`: lists, refreshes and checks remote modules."""

from typing import Annotated

import typer
from rich.text import Text

from engine.app.engine import Engine
from engine.contract.failure import ToolFailure
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from engine.remote.states import ModuleState

app = typer.Typer(
    help="List, refresh and check remote modules (HTTP modules and MCP servers).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Names = Annotated[list[str] | None, typer.Argument(help="Modules; by default all.")]


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """List every configured module with its tools and its state, without contacting it."""

    async def work(engine: Engine) -> list[ModuleState]:
        await engine.modules.load()
        return engine.modules.states()

    states = with_engine(ctx, work)
    show(states, as_json=wants_json(ctx, as_json))


@app.command()
def refresh(ctx: typer.Context, names: Names = None, as_json: Json = False) -> None:
    """Fetch the tools of modules again. The exit code is 1 if a module does not answer or its answer is invalid."""
    states = refreshed(ctx, names)
    show(states, as_json=wants_json(ctx, as_json))
    raise typer.Exit(int(Exit.OK if all(state.reachable for state in states) else Exit.FAILED))


@app.command()
def check(ctx: typer.Context, names: Names = None, as_json: Json = False) -> None:
    """Refresh modules and list the tools that were left out and why. The exit code is 1 if there is any problem."""
    states = refreshed(ctx, names)
    as_one = wants_json(ctx, as_json)
    show(states, as_json=as_one)
    left_out = [each for state in states for each in state.left_out]
    if left_out and not as_one:
        emit("")
        print_table(("left out", "why"), left_out)
    sound = not left_out and all(state.reachable for state in states)
    raise typer.Exit(int(Exit.OK if sound else Exit.FAILED))


def refreshed(ctx: typer.Context, names: list[str] | None) -> list[ModuleState]:
    """Refresh modules and return their states. End the command if a module is not configured."""

    async def work(engine: Engine) -> list[ModuleState]:
        return await engine.modules.refresh(names or None)

    try:
        with working("contacting the modules"):
            return with_engine(ctx, work)
    except ToolFailure as error:
        fail(str(error), Exit.USAGE)


def show(states: list[ModuleState], *, as_json: bool) -> None:
    if as_json:
        emit_json({"modules": [state.as_dict() for state in states]})
        return
    if not states:
        say("no modules are configured. Set module_services in [modules], or [mcp_servers], in config.toml.")
        return
    headings = ("module", "kind", "where", "tools", "state", "refreshed at")
    print_table(
        headings,
        [
            (state.name, state.kind, state.where, str(len(state.tools)), reachability(state), state.refreshed_at[:19])
            for state in states
        ],
    )


def reachability(state: ModuleState) -> Text:
    if state.reachable is None:
        return Text("not contacted yet")
    return Text("answers", style="green") if state.reachable else Text(state.error, style="red")

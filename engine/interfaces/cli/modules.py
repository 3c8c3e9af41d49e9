"""`knackbox modules …`: tools that live elsewhere: what is known of them, ask them again, what is wrong with them."""

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
    help="Tools that live elsewhere: HTTP modules and MCP servers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Names = Annotated[list[str] | None, typer.Argument(help="Modules; all of them when none is named.")]


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """What is known of every configured module. Nobody is asked."""

    async def work(engine: Engine) -> list[ModuleState]:
        await engine.modules.load()
        return engine.modules.states()

    states = with_engine(ctx, work)
    show(states, as_json=wants_json(ctx, as_json))


@app.command()
def refresh(ctx: typer.Context, names: Names = None, as_json: Json = False) -> None:
    """Ask modules what they offer now. Ends with 1 when one did not answer, or not as it should."""
    states = asked(ctx, names)
    show(states, as_json=wants_json(ctx, as_json))
    raise typer.Exit(int(Exit.OK if all(state.reachable for state in states) else Exit.FAILED))


@app.command()
def check(ctx: typer.Context, names: Names = None, as_json: Json = False) -> None:
    """As refresh, and name the tools that had to be left out, with the reason. Ends with 1 when anything is wrong."""
    states = asked(ctx, names)
    as_one = wants_json(ctx, as_json)
    show(states, as_json=as_one)
    left_out = [each for state in states for each in state.left_out]
    if left_out and not as_one:
        emit("")
        print_table(("left out", "why"), left_out)
    sound = not left_out and all(state.reachable for state in states)
    raise typer.Exit(int(Exit.OK if sound else Exit.FAILED))


def asked(ctx: typer.Context, names: list[str] | None) -> list[ModuleState]:
    """The states of the modules, just asked. Ends the command when one is not configured."""

    async def work(engine: Engine) -> list[ModuleState]:
        return await engine.modules.refresh(names or None)

    try:
        with working("asking the modules"):
            return with_engine(ctx, work)
    except ToolFailure as error:
        fail(str(error), Exit.USAGE)


def show(states: list[ModuleState], *, as_json: bool) -> None:
    if as_json:
        emit_json({"modules": [state.as_dict() for state in states]})
        return
    if not states:
        say("no modules are configured: see module_services in [modules], and [mcp_servers], of config.toml.")
        return
    headings = ("module", "kind", "where", "tools", "state", "manifest of")
    print_table(
        headings,
        [
            (state.name, state.kind, state.where, str(len(state.tools)), answered(state), state.refreshed_at[:19])
            for state in states
        ],
    )


def answered(state: ModuleState) -> Text:
    if state.reachable is None:
        return Text("not asked yet")
    return Text("answers", style="green") if state.reachable else Text(state.error, style="red")

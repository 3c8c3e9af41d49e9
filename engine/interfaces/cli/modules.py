"""`knackbox modules …`: lists, refreshes and checks remote modules, and accepts changed tools."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from engine.app.engine import Engine
from engine.contract.failure import ToolFailure
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from engine.remote.pins import ChangedTool
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


@app.command()
def changes(ctx: typer.Context, names: Names = None, as_json: Json = False) -> None:
    """Show the tools that are held back because their definition changed. The exit code is 1 if there are any."""

    async def work(engine: Engine) -> list[ChangedTool]:
        return await engine.modules.changed_tools(names or None)

    found = with_engine(ctx, work)
    if wants_json(ctx, as_json):
        emit_json({"changed": [{**asdict(tool), "digest": tool.digest} for tool in found]})
    for tool in () if wants_json(ctx, as_json) else found:
        emit(f"{tool.name} ({tool.digest})\n{tool.diff()}\n")
    raise typer.Exit(int(Exit.FAILED if found else Exit.OK))


@app.command()
def accept(
    ctx: typer.Context,
    tools: Annotated[list[str], typer.Argument(help="Tools that are held back, as MODULE.TOOL.")],
    digests: Annotated[
        list[str] | None,
        typer.Option("--digest", help="Accept without a question if the definition has this digest. Repeatable."),
    ] = None,
) -> None:
    """Accept the changed definitions of tools after showing them. The tools are then offered again."""

    async def work(engine: Engine) -> list[str]:
        found = {tool.name: tool for tool in await engine.modules.changed_tools()}
        if unknown := [name for name in tools if name not in found]:
            return [f"{', '.join(unknown)}: not held back. knackbox modules changes shows what is."]
        chosen = [found[name] for name in dict.fromkeys(tools)]
        for tool in chosen:
            if digests and tool.digest not in digests:
                return [f"{tool.name} now has the digest {tool.digest}. Look at it with knackbox modules changes."]
            if not digests:
                say(f"{tool.name} ({tool.digest})\n{tool.diff()}")
        if not digests and not await asyncio.to_thread(typer.confirm, "Accept?", err=True):
            return ["nothing was accepted."]
        return [f"{tool.name}: changed again meanwhile, not accepted." for tool in await engine.modules.accept(chosen)]

    if problems := with_engine(ctx, work):
        fail(" ".join(problems), Exit.FAILED)
    say(f"accepted {', '.join(tools)}.")


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

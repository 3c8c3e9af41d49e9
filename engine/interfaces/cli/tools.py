"""`knackbox tools`: lists the tools of a turn and, with --why, the tools that are left out and the reasons."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from engine.app.engine import Engine
from engine.contract.spec import PermissionLevel
from engine.contract.turn import Turn
from engine.formats.spec_json import spec_to_json
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Agent, Json, emit, emit_json, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from engine.turn.active_list import ActiveList
from engine.turn.paging import ToolPage

SHOWN = ("name", "description", "parameters", "origin", "category", "version", "annotations")

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def tools(
    ctx: typer.Context,
    *,
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", help="A message. Only learned skills that match it are shown."),
    ] = None,
    allow_list: Annotated[str, typer.Option("--allow-list", help="The name of the allow-list to apply.")] = "",
    permission: Annotated[
        PermissionLevel, typer.Option("--permission", help="List the tools for a user with this permission.")
    ] = "owner",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of learned skills.")] = 100,
    after: Annotated[
        str, typer.Option("--after", metavar="NAME", help="Continue after the skill with this name.")
    ] = "",
    why: Annotated[bool, typer.Option("--why", help="Also show which tools are left out, and why.")] = False,
    agent: Agent = None,
    as_json: Json = False,
) -> None:
    """List the tools of a turn, in the order in which a model receives them."""

    async def work(engine: Engine) -> ToolPage:
        allowed = engine.resolve_allow_list(allow_list) if allow_list else None
        turn = Turn(permission=permission, allowed=allowed)
        bounded = await engine.turn_of(agent, turn) if agent else turn
        return await engine.tool_page(replace(bounded, query=query), after, limit)

    with working("listing the tools"):
        page = with_engine(ctx, work)
    if wants_json(ctx, as_json):
        emit_json(as_object(page.listed, why=why))
    else:
        show(page.listed, why=why)
    if page.next:
        say(f"showing {limit} learned skills. Use --after {page.next} for the next ones, or a higher --limit.")


def as_object(found: ActiveList, *, why: bool) -> dict[str, Any]:
    """Return the tools as JSON fields. With `why`, include dropped tools and failed sources, with the reasons."""
    shown: dict[str, Any] = {"tools": [spec_to_json(tool.spec, *SHOWN) for tool in found.tools]}
    if why:
        shown["dropped"] = [{"name": each.name, "reason": each.reason} for each in found.dropped]
        shown["failed"] = [{"source": each.source, "reason": each.reason} for each in found.failed]
    return shown


def show(found: ActiveList, *, why: bool) -> None:
    specs = [tool.spec for tool in found.tools]
    rows = [(spec.name, spec.origin.value, spec.category, spec.summary) for spec in specs]
    print_table(("tool", "origin", "category", "description"), rows)
    if why and found.dropped:
        emit("")
        print_table(("left out", "why"), [(each.name, each.reason) for each in found.dropped])
    elif why:
        say("nothing was left out.")
    for failure in found.failed:
        say(f"the source {failure.source} provided no tools: {failure.reason}")

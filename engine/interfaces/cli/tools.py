"""`knackbox tools`: lists the tools of a turn and, with --why, the tools that are left out and the reasons."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from engine.app.engine import Engine
from engine.contract.spec import PermissionLevel
from engine.contract.turn import Turn
from engine.formats.spec_json import spec_to_json
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Agent, Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from engine.turn.active_list import ActiveList
from engine.turn.paging import ToolPage
from engine.turn.tool_fit import RatedTools

_LEAST_SHOWN = 0.005  # smaller summands of the evidence are not shown
SHOWN = ("name", "description", "parameters", "origin", "category", "version", "annotations")

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def tools(
    ctx: typer.Context,
    request: Annotated[str, typer.Argument(help="A message. Only learned skills that match it are shown.")] = "",
    *,
    query: Annotated[str | None, typer.Option("--query", "-q", help="The same as REQUEST.")] = None,
    allow_list: Annotated[str, typer.Option("--allow-list", help="The name of the allow-list to apply.")] = "",
    permission: Annotated[
        PermissionLevel, typer.Option("--permission", help="List the tools for a user with this permission.")
    ] = "owner",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of learned skills.")] = 100,
    after: Annotated[
        str, typer.Option("--after", metavar="NAME", help="Continue after the skill with this name.")
    ] = "",
    why: Annotated[
        bool, typer.Option("--why", help="Also show which tools are left out and why, and how well tools fit REQUEST.")
    ] = False,
    agent: Agent = None,
    as_json: Json = False,
) -> None:
    """List the tools of a turn, in the order in which a model receives them."""

    if request and query is not None:
        fail("Give the message either as REQUEST or with --query, not both.", Exit.USAGE)
    message = query if query is not None else request or None

    async def work(engine: Engine) -> tuple[ToolPage, RatedTools | None]:
        allowed = engine.resolve_allow_list(allow_list) if allow_list else None
        turn = Turn(permission=permission, allowed=allowed)
        bounded = await engine.turn_of(agent, turn) if agent else turn
        page = await engine.tool_page(replace(bounded, query=message), after, limit)
        return page, await engine.rate_tools(message, bounded) if why and message else None

    with working("listing the tools"):
        page, rated = with_engine(ctx, work)
    if wants_json(ctx, as_json):
        emit_json(as_object(page.listed, why=why) | ({"fit": fit_as_object(rated, page.listed)} if rated else {}))
    else:
        show(page.listed, why=why)
        if rated is not None:
            show_fit(rated, page.listed)
    if page.next:
        say(f"showing {limit} learned skills. Use --after {page.next} for the next ones, or a higher --limit.")


def as_object(found: ActiveList, *, why: bool) -> dict[str, Any]:
    """Return the tools as JSON fields. With `why`, include dropped tools and failed sources, with the reasons."""
    shown: dict[str, Any] = {"tools": [spec_to_json(tool.spec, *SHOWN) for tool in found.tools]}
    if why:
        shown["dropped"] = [{"name": each.name, "reason": each.reason} for each in found.dropped]
        shown["failed"] = [{"source": each.source, "reason": each.reason} for each in found.failed]
    return shown


def fit_as_object(rated: RatedTools, listed: ActiveList) -> dict[str, Any]:
    """Return as JSON fields how likely it is that some tool fits, and the nearest tools with the evidence for each."""
    offered = names_of(listed)
    nearest = [
        {
            "name": one.name,
            "fit": round(one.fit, 3),
            "offered": one.name in offered,
            "evidence": {name: round(term, 2) for name, term in one.evidence.items()},
        }
        for one in rated.found
    ]
    return {
        "probability": round(rated.probability, 3),
        "least": rated.least,
        "gap": rated.gap,
        "ranking": rated.ranking,
        "nearest": nearest,
    }


def show_fit(rated: RatedTools, listed: ActiveList) -> None:
    offered = names_of(listed)
    emit("")
    if rated.found:
        headings = ("nearest to the request", "fit", "offered", "evidence")
        rows = [
            (one.name, f"{one.fit:.3f}", "yes" if one.name in offered else "no", evidence_text(one.evidence))
            for one in rated.found
        ]
        print_table(headings, rows)
    verdict = "Something fits" if rated.any_fits else "Nothing fits"
    say(f"{verdict}: the probability is {rated.probability:.3f}, and from {rated.least:g} a tool is said to fit.")
    if rated.gap:
        say(f"not searched: {rated.gap}")
    if rated.ranking:
        say(f"the learned ranking of skills: {rated.ranking}.")


def evidence_text(evidence: Mapping[str, float]) -> str:
    """Format summands of log-odds, such as ``words +1.20, chat -0.40``. Those that do not matter are omitted."""
    shown = {name: term for name, term in evidence.items() if abs(term) >= _LEAST_SHOWN}
    return ", ".join(f"{name} {term:+.2f}" for name, term in sorted(shown.items(), key=lambda item: -abs(item[1])))


def names_of(listed: ActiveList) -> frozenset[str]:
    """Return the names of the tools on a list."""
    return frozenset(tool.spec.name for tool in listed.tools)


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

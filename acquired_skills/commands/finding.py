"""`knackbox skills search`: what retrieval finds."""

from typing import Annotated

import typer

from acquired_skills.commands.shared import table, with_library
from acquired_skills.describe import summary
from engine.faces.cli.shared import Json, emit_json, say, wants_json


def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="A request, in your own words.")],
    k: Annotated[int | None, typer.Option("-k", min=1, help="How many at most.")] = None,
    as_json: Json = False,
) -> None:
    """The skills that retrieval finds for a request, best first."""
    found = with_library(ctx, "searching", lambda library: library.search(query, k))
    rows = [{**summary(one.skill), "score": round(one.score, 3)} for one in found]
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif not rows:
        say("nothing is found: there is no listed skill.")
    else:
        table(rows, ("name", "score", "state", "description"))

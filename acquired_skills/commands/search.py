"""`knackbox skills search`: shows what retrieval finds, and why."""

from typing import Annotated, Any

import typer

from acquired_skills.commands.shared import table, with_library
from acquired_skills.find.catalog import SearchHit
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.tools.describe import summary
from engine.interfaces.cli.shared import Json, emit_json, say, wants_json


def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="A request, in your own words.")],
    k: Annotated[int | None, typer.Option("-k", min=1, max=1000, help="How many at most.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show skills that do not fit.")] = False,
    as_json: Json = False,
) -> None:
    """Show the skills that retrieval finds for a request, best first, and why."""

    async def work(library: SkillLibrary) -> tuple[list[SearchHit], int]:
        return await library.search(query, k, 0.0 if everything else None), len(await library.listed())

    found, listed = with_library(ctx, "searching", work)
    rows = [_row(one) for one in found]
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif rows:
        table(rows, ("name", "score", "fit", "similarity", "why", "description"))
    elif listed:
        say(f"nothing fits: none of the {listed} listed skills is likely to be of use (--all shows the nearest).")
    else:
        say("nothing found: there is no listed skill.")


def _row(one: SearchHit) -> dict[str, Any]:
    return {
        **summary(one.skill),
        "score": round(one.score, 3),
        "fit": round(one.fit, 3),
        "similarity": round(one.similarity, 3),
        "covered": round(one.covered, 3),
        "weight": round(one.weight, 3),
        "why": _why(one),
    }


def _why(one: SearchHit) -> str:
    reasons = ["its exact name"] if one.named else []
    reasons.append(f"covers {one.covered:.0%} of the request")
    if one.weight < 1:
        reasons.append(f"weighted {one.weight:.2f} for its failures")
    return "; ".join(reasons)

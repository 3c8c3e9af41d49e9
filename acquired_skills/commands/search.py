"""`knackbox skills search`: shows the skills that retrieval finds for a request, and the reasons."""

import asyncio
from typing import Annotated, Any

import typer

from acquired_skills.commands.shared import table, with_skills
from acquired_skills.find.catalog import SkillHit
from acquired_skills.find.instruction_search import InstructionHit, InstructionSearch
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.tools.describe import INSTRUCTIONS, summary
from engine.app.engine import Engine
from engine.interfaces.cli.shared import Json, emit_json, say, wants_json
from engine.retrieval.ranked import LearnedShares

_MOST_TEXTS = 8
_MOST_SHARES, _LEAST_SHARE = 4, 0.05  # maximum number and minimum size of the score shares that are shown


def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="The request to find skills for, in your own words.")],
    k: Annotated[int | None, typer.Option("-k", min=1, max=1000, help="The maximum number of skills to show.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show skills that do not fit.")] = False,
    as_json: Json = False,
) -> None:
    """Show the skills and instructions that retrieval finds for a request, best first, with the reasons."""

    async def work(engine: Engine) -> tuple[list[dict[str, Any]], int]:
        library, texts = engine.need(SkillLibrary), engine.need(InstructionSearch)
        fits = 0.0 if everything else library.fits
        hits = await library.search(query, k, fits)
        shares = await library.learned_shares(query, [one.skill.name for one in hits if one.learned])
        rows = [_row(one, shares.get(one.skill.name)) for one in hits]
        found = await asyncio.to_thread(texts.search, query, k or _MOST_TEXTS, fits)
        rows = sorted([*rows, *map(_text_row, found)], key=lambda row: row["fit"], reverse=True) if found else rows
        return rows[:k], len(await library.listed()) + len(await asyncio.to_thread(texts.all))

    rows, listed = with_skills(ctx, "searching", work)
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif rows:
        table(rows, ("name", "score", "fit", "similarity", "why", "description"))
    elif listed:
        say(f"nothing fits: none of the {listed} listed skills is likely to be of use (--all shows the nearest).")
    else:
        say("nothing found, because there are no listed skills.")


def _text_row(one: InstructionHit) -> dict[str, Any]:
    row = {"name": one.name, "version": None, "state": INSTRUCTIONS, "description": one.description}
    return {**row, "score": None, "fit": round(one.fit, 3), "similarity": None, "why": "instructions for agents"}


def _row(one: SkillHit, shares: LearnedShares | None) -> dict[str, Any]:
    return {
        **summary(one.skill),
        "score": round(one.score, 3),
        "fit": round(one.fit, 3),
        "similarity": round(one.similarity, 3),
        "covered": round(one.covered, 3),
        "learned": round(one.learned, 3),
        "weight": round(one.weight, 3),
        "evidence": {name: round(term, 2) for name, term in one.evidence.terms.items()} if one.evidence else {},
        "learned_from": _learned_from(shares),
        "why": _why(one, shares),
    }


def _why(one: SkillHit, shares: LearnedShares | None) -> str:
    reasons = ["its exact name"] if one.named else []
    reasons.append(f"covers {one.covered:.0%} of the request")
    if one.evidence is not None and not one.named:
        reasons.append(f"is {_than_usual(one.evidence.nearness)} similar to the request than small talk is")
        if one.evidence.chat > 1:
            reasons.append("the request resembles small talk")
    if one.learned:
        most = sorted(_learned_from(shares).items(), key=lambda item: -item[1])[:_MOST_SHARES]
        of = ", ".join(f"{what} {share:.0%}" for what, share in most if share >= _LEAST_SHARE)
        reasons.append(f"scores {one.learned:.2f} in the learned ranking{f' ({of})' if of else ''}")
    if one.weight < 1:
        reasons.append(f"its score is multiplied by {one.weight:.2f} because of its failures")
    return "; ".join(reasons)


def _learned_from(shares: LearnedShares | None) -> dict[str, float]:
    """Return how much each word and the meaning of a request contribute to a learned score, as shares.

    The key of a word is the word in quotation marks.
    """
    if shares is None:
        return {}
    found = {f"{word!r}": share for word, share in shares.words.items()} | {"meaning": shares.meaning}
    return {what: round(share, 3) for what, share in found.items()}


def _than_usual(deviations: float) -> str:
    """Format how much a similarity differs from the usual similarity, such as ``1.5 standard deviations more``.

    Args:
        deviations: `FitEvidence.nearness`.
    """
    return f"{abs(deviations):.1f} standard deviations {'more' if deviations >= 0 else 'less'}"

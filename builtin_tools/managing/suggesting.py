"""The action suggest of `manage_skills`: proposes pipelines for sequences of calls that were repeated."""

import asyncio
import json
from typing import Any

from typing_extensions import TypedDict

from acquired_skills.composed.suggest import MOST_CALLS, suggest_pipelines
from acquired_skills.store.failed_inputs import visible_user
from engine.contract.context import CallContext, Produced
from engine.stores.call_views import AuditView
from engine.turn.discovery import Discovery


class SuggestOutput(TypedDict):
    """A repeated sequence of calls, and a pipeline for `compose_skill` that makes these calls. The output of
    suggest.
    """

    tools: list[str]
    times: int
    pipeline: dict[str, Any]
    notes: list[str]


async def suggest(ctx: CallContext) -> Produced:
    """Suggest pipelines from the recorded calls of this user or, if the user is an admin, of all users."""
    user = visible_user(ctx.turn)
    rows = await asyncio.to_thread(ctx.need(AuditView).recent, MOST_CALLS)
    own = [row for row in rows if user is None or row["user"] == user]
    specs = await ctx.need(Discovery).look_up({row["tool"] for row in own}, ctx.turn)
    found = await asyncio.to_thread(suggest_pipelines, own, specs)
    lines = [f"- {' -> '.join(each.tools)}, {each.times} times: {json.dumps(each.pipeline)}" for each in found]
    return Produced([each.value() for each in found], "\n".join(lines) or "No sequence of calls was repeated yet.")

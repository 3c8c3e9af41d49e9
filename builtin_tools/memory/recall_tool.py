"""`recall`: searches the long-term memory."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.memory.descriptions import HitOutput, describe_hit, line_of_hit
from builtin_tools.memory.entries import EntryKind
from builtin_tools.memory.recall import MOST_RESULTS, RecallRequest
from builtin_tools.memory.service import MemoryService
from engine.contract.context import CallContext, Produced
from engine.contract.spec import Annotations
from engine.registry.decorate import tool


class RecallOutput(TypedDict):
    """The output of recall.

    Attributes:
        hits: The entries that were found, best first; empty if nothing fits.
        since, until: The time range to which the hits are limited; null for an open end.
        as_of: The time at which the hits are true; null for any time.
        note: A remark about the result, such as that nothing fits; "" if there is none.
    """

    hits: list[HitOutput]
    since: str | None
    until: str | None
    as_of: str | None
    note: str


@tool(
    category="memory_search",
    annotations=Annotations(read_only=True, idempotent=True),
    required_permission="user",
    tier="low",
    private_arguments=("query",),
    short_description="Search the long-term memory: facts, documents, lessons and the profile.",
)
async def recall(
    ctx: CallContext,
    query: Annotated[str, Field(max_length=2_000)] = "",
    *,
    kinds: list[EntryKind] | None = None,
    spaces: Annotated[list[str], Field(max_length=50)] | None = None,
    document: Annotated[str, Field(max_length=200)] | None = None,
    when: Annotated[str, Field(max_length=200)] | None = None,
    as_of: Annotated[str, Field(max_length=200)] | None = None,
    history: bool = False,
    limit: Annotated[int, Field(ge=1, le=MOST_RESULTS)] = 8,
    around: Annotated[int, Field(ge=0, le=5)] = 0,
) -> Produced[RecallOutput]:
    """Search the long-term memory by meaning: facts, passages of documents, lessons, and the profile.

    Use it before you say that you do not know something about the user, earlier conversations or stored documents. If
    nothing fits, the result says so; then do not guess. For a question that combines two facts, one query is enough. To
    list mistakes and their fixes, use `list_lessons`; for notes of the current task use `scratchpad`; for the web use a
    web search.

    Args:
        query: What you want to know, in a sentence that names people and things. Empty for the newest entries.
        kinds: Only entries of these kinds.
        spaces: Only these spaces; globs such as `shared:*` are allowed.
        document: Only passages of the document with this id.
        when: Only entries that were learned at this time or mention it, in the user's words: "yesterday morning", "last
            week", "this Friday 6pm", "since Monday", "in March 2024", or ISO 8601. A time in the query has the same
            effect.
        as_of: Only facts that were true at this time, such as "2023-06-01". Default: now.
        history: Also return facts that are no longer true, with the time until which they were true.
        limit: The maximum number of hits.
        around: For passages of documents, how many neighbouring passages to show.
    """
    found = await ctx.need(MemoryService).recall(
        ctx.turn,
        RecallRequest(
            query, kinds, spaces, document, when or "", as_of or "", history=history, limit=limit, around=around
        ),
    )
    output = RecallOutput(
        hits=[describe_hit(hit) for hit in found.hits],
        since=found.range.start.isoformat() if found.range and found.range.start else None,
        until=found.range.end.isoformat() if found.range and found.range.end else None,
        as_of=found.as_of.isoformat() if found.as_of else None,
        note=found.note,
    )
    lines = [found.note] if found.note else []
    return Produced(output, "\n".join([*lines, *(line_of_hit(hit) for hit in found.hits)]))

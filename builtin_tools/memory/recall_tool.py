"""`recall`: searches the long-term memory."""

import asyncio
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.memory.descriptions import HitOutput, describe_hit, line_of_hit
from builtin_tools.memory.entries import EntryKind
from builtin_tools.memory.recall import MOST_RESULTS, RecallRequest
from builtin_tools.memory.service import MemoryService
from engine.contract.context import CallContext, Produced
from engine.contract.moved_content import ContentPiece, MovedContent
from engine.contract.spec import Annotations
from engine.dispatch.refusals import wrong_arguments
from engine.registry.decorate import tool

READ = 6_000  # characters of a part of the conversation that one call returns
_MOST_MOVED = 5  # passages of the conversation in the result of a search


class MovedOutput(TypedDict):
    """A part of this conversation that was moved out of the prompt.

    Attributes:
        what: What it is, such as "result of file_system".
        characters: The length of the whole text.
        start: Where `text` begins in the whole text.
    """

    handle: str
    what: str
    text: str
    characters: int
    start: int


class RecallOutput(TypedDict):
    """The output of recall.

    Attributes:
        hits: The entries that were found, best first; empty if nothing fits.
        since, until: The time range to which the hits are limited; null for an open end.
        as_of: The time at which the hits are true; null for any time.
        note: A remark about the result, such as that nothing fits; "" if there is none.
        moved: Passages of this conversation that were moved out of the prompt, best first, or what was read by a
            handle.
    """

    hits: list[HitOutput]
    since: str | None
    until: str | None
    as_of: str | None
    note: str
    moved: list[MovedOutput]


@tool(
    category="memory_search",
    annotations=Annotations(read_only=True, idempotent=True),
    required_permission="user",
    tier="low",
    private_arguments=("query",),
    short_description="Search the long-term memory, and what was moved out of a long conversation.",
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
    handle: Annotated[str, Field(max_length=300)] = "",
    start: Annotated[int, Field(ge=0)] = 0,
) -> Produced[RecallOutput]:
    """Search the long-term memory by meaning: facts, passages of documents, lessons, and the profile.

    If parts of this conversation were moved out of the prompt, they are searched too, by words, and can be read by
    their handles.

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
        handle: Instead of a search, read this part of the conversation, such as `result://…`.
        start: For a handle, the character to begin with.
    """
    if handle:
        return await _read(ctx, handle, start)
    found = await ctx.need(MemoryService).recall(
        ctx.turn,
        RecallRequest(
            query, kinds, spaces, document, when or "", as_of or "", history=history, limit=limit, around=around
        ),
    )
    narrowed = kinds or spaces or document or when or as_of or not query
    moved = [] if narrowed else await _moved(ctx, query, min(limit, _MOST_MOVED))
    note = "" if moved and not found.hits else found.note
    output = RecallOutput(
        hits=[describe_hit(hit) for hit in found.hits],
        since=found.range.start.isoformat() if found.range and found.range.start else None,
        until=found.range.end.isoformat() if found.range and found.range.end else None,
        as_of=found.as_of.isoformat() if found.as_of else None,
        note=note,
        moved=[_output(piece) for piece in moved],
    )
    lines = [note] if note else []
    lines += [line_of_hit(hit) for hit in found.hits]
    lines += ["From earlier in this conversation:"] if moved else []
    return Produced(output, "\n".join([*lines, *(_line(piece) for piece in moved)]))


async def _moved(ctx: CallContext, query: str, limit: int) -> list[ContentPiece]:
    """Return the passages of the conversation that fit a query, if it has been moved out of the prompt."""
    content: MovedContent | None = ctx.services.get(MovedContent)
    if content is None or not ctx.turn.run:
        return []
    return await asyncio.to_thread(content.search, ctx.turn, query, limit)


async def _read(ctx: CallContext, handle: str, start: int) -> Produced[RecallOutput]:
    """Read a part of the conversation.

    Raises:
        ToolFailure: The conversation contains nothing with this handle (DIAGNOSTIC).
    """
    content: MovedContent | None = ctx.services.get(MovedContent)
    piece = None
    if content is not None and ctx.turn.run:
        piece = await asyncio.to_thread(content.read, ctx.turn, handle, start, READ)
    if piece is None:
        raise wrong_arguments(
            f"There is nothing in this conversation with the handle {handle[:100]!r}. Search it with a query instead."
        )
    end = piece.start + len(piece.text)
    more = f"\n[Characters {piece.start} to {end} of {piece.characters}. Read on with start={end}.]"
    output = RecallOutput(hits=[], since=None, until=None, as_of=None, note="", moved=[_output(piece)])
    return Produced(output, piece.text + (more if end < piece.characters else ""))


def _output(piece: ContentPiece) -> MovedOutput:
    return MovedOutput(
        handle=piece.handle, what=piece.what, text=piece.text, characters=piece.characters, start=piece.start
    )


def _line(piece: ContentPiece) -> str:
    rest = "" if len(piece.text) == piece.characters else f" [a passage of {piece.characters} characters]"
    return f"- {piece.handle} ({piece.what}): {piece.text}{rest}"

"""`knowledge_base`: adds to the long-term memory, lists its documents, and deletes from it."""

import asyncio
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.memory.contradictions import AddedFact
from builtin_tools.memory.descriptions import DocumentOutput, EntryOutput, describe, describe_document, line_of
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.service import MOST_CHARACTERS, FactToAdd, ForgetPreview, MemoryService
from engine.contract.context import CallContext, Produced
from engine.contract.spec import Annotations
from engine.dispatch.refusals import not_configured, wrong_arguments
from engine.policy.risk import RISK_ARGUMENTS
from engine.registry.decorate import tool

_MOST_SHOWN = 20  # maximum entries of a preview that the message lists


class InsertedOutput(TypedDict):
    """The output of insert_fact.

    Attributes:
        known: Whether the same fact was already stored, so that nothing was added.
        replaced: Facts that the new one replaced. They are kept, with the time until which they were true.
        undecided: Facts that may contradict the new one. All of them are kept.
    """

    entry: EntryOutput
    known: bool
    replaced: list[EntryOutput]
    undecided: list[EntryOutput]


class IntakeOutput(TypedDict):
    """A document that ingest_document stored.

    Attributes:
        unchanged: Whether the same content was already stored.
    """

    id: str
    title: str
    uri: str
    passages: int
    pages: int | None
    unchanged: bool
    note: str


class ForgetOutput(TypedDict):
    """The output of forget and reset_all.

    Attributes:
        deleted: Whether anything was deleted. If not, the output is a preview.
        confirm: The code with which to confirm the preview; null after the deletion.
        entries, documents: The entries and documents that were, or would be, deleted.
        still_in: Files of the home that still contain a deleted text.
    """

    deleted: bool
    confirm: str | None
    entries: list[EntryOutput]
    documents: list[DocumentOutput]
    still_in: list[str]


Action = Literal["insert_fact", "ingest_document", "forget", "list_docs", "reset_all"]
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Name = Annotated[str, Field(max_length=200)]


@tool(
    category="memory",
    annotations=Annotations(destructive=True),
    side_effects=("memory_write", "memory_delete"),
    required_permission="user",
    tier="low",
    timeout_s=600,
    private_arguments=("text", "source", "query", "subject", "attribute", "value"),
    meta={RISK_ARGUMENTS: {"action": {"forget": "HIGH", "reset_all": "HIGH"}}},
    short_description="Add facts and documents to the long-term memory, list documents, or forget them.",
)
async def knowledge_base(
    ctx: CallContext,
    action: Action,
    text: Text | None = None,
    *,
    source: Name | None = None,
    query: Text | None = None,
    ids: Annotated[list[str], Field(max_length=500)] | None = None,
    document: Name | None = None,
    space: Name | None = None,
    subject: Name | None = None,
    attribute: Name | None = None,
    value: Name | None = None,
    since: Name | None = None,
    until: Name | None = None,
    confirm: Name | None = None,
) -> Produced[InsertedOutput | list[IntakeOutput] | list[DocumentOutput] | ForgetOutput]:
    """Add to the long-term memory, list its documents, or forget. To search it, use `recall`.

    `insert_fact` stores one statement to remember in later conversations, such as "Ada's deadline is Friday".
    A newer statement about the same thing replaces an older one, which is kept as history. Do not store what is only
    needed for the current task (use `scratchpad`), settled properties of the user (`update_profile`), or a mistake with
    its fix (`learn_skill`). `ingest_document` stores a file or folder of the workspace, or a web page, for search.
    `list_docs` lists the stored documents.

    `forget` deletes permanently, by `ids`, by `document`, or by `query`. `reset_all` deletes everything of
    this user, or of `space`. `forget` by `query` and `reset_all` delete nothing at first: they return a preview and a
    code. Show the preview to the user; if the user agrees, repeat the call with `confirm` set to the code. Forget only
    when the user asks for it. If a fact has merely changed, insert the new one.

    Args:
        action: What to do.
        text: insert_fact: one statement in a sentence that can be understood on its own, with names instead of "he".
        source: ingest_document: a path in the workspace, or a URL.
        query: forget: words that the entries contain, or a description of them.
        ids: forget: ids of entries, as `recall` shows them.
        document: forget: the id, path or URL of a document.
        space: `personal:<name>` or `shared:<name>`. Default: personal:general. Other users can read shared spaces.
        subject: insert_fact: what the fact is about. Optional; set it together with `attribute` and `value`.
        attribute: insert_fact: which property, such as "employer".
        value: insert_fact: the value of the property, such as "Acme".
        since: insert_fact: from when the fact is true, if not from now: "2024-03-05", "March 2024", "two weeks ago".
        until: insert_fact: until when the fact is true.
        confirm: forget, reset_all: the code of the preview.
    """
    service = ctx.need(MemoryService)
    if action == "insert_fact":
        if text is None:
            raise wrong_arguments("`text` is missing: insert_fact needs the statement to store.")
        fact = FactToAdd(
            text,
            space or "",
            subject=subject or "",
            attribute=attribute or "",
            value=value or "",
            since=since or "",
            until=until or "",
            call_id=ctx.call_id,
        )
        return _inserted(await service.add(ctx.turn, fact, ctx.llm_client))
    if action == "ingest_document":
        return await _take_in(ctx, service, source, space)
    if action == "list_docs":
        found = await service.list_documents(ctx.turn, None if space is None else [space])
        rows = [describe_document(each) for each in found]
        lines = [f"- [{row['id']}] {row['title']} ({row['uri']}, {row['space']})" for row in rows]
        return Produced(rows, "\n".join(lines) or "No documents are stored.")
    spaces = None if space is None else [space]
    if action == "reset_all":
        preview = await service.preview(ctx.turn, spaces=spaces)
        return await _forget(service, preview, confirm, sure=False)
    given = [each for each in (query, ids, document) if each]
    if len(given) != 1:
        raise wrong_arguments("forget needs exactly one of `query`, `ids` and `document`.")
    preview = await service.preview(ctx.turn, query=query or "", ids=ids or (), document=document or "", spaces=spaces)
    return await _forget(service, preview, confirm, sure=not query)


def _inserted(added: AddedFact) -> Produced[InsertedOutput | list[IntakeOutput] | list[DocumentOutput] | ForgetOutput]:
    output = InsertedOutput(
        entry=describe(added.entry),
        known=added.known,
        replaced=[describe(each) for each in added.closed],
        undecided=[describe(each) for each in added.open],
    )
    if added.known:
        return Produced(output, f"Already known: [{added.entry.id}]")
    lines = [f"Stored: [{added.entry.id}]"]
    lines += [f"The new fact replaces: {line_of(each)[2:]}" for each in added.closed]
    lines += [f"The new fact may contradict another fact; both are kept: {line_of(each)[2:]}" for each in added.open]
    return Produced(output, "\n".join(lines), (f"remembered:{added.entry.id}",))


async def _take_in(
    ctx: CallContext, service: MemoryService, source: str | None, space: str | None
) -> Produced[InsertedOutput | list[IntakeOutput] | list[DocumentOutput] | ForgetOutput]:
    if source is None:
        raise wrong_arguments("`source` is missing: ingest_document needs a path in the workspace, or a URL.")
    if service.documents is None:
        raise not_configured("Documents cannot be read in this configuration.")
    scope = MemoryScope.of(ctx.turn)
    name = space or scope.default_space()
    taken = await service.documents.ingest(ctx, source, name, scope.owner(name))
    rows = [
        IntakeOutput(
            id=each.document_id,
            title=each.title,
            uri=each.uri,
            passages=each.passages,
            pages=each.pages,
            unchanged=each.unchanged,
            note=each.note,
        )
        for each in taken
    ]
    lines = [
        f"- [{row['id']}] {row['title']}: {'unchanged' if row['unchanged'] else str(row['passages']) + ' passages'}"
        f"{'. ' + row['note'] if row['note'] else ''}"
        for row in rows
    ]
    effects = tuple(f"ingested:{row['uri']}" for row in rows if not row["unchanged"])
    return Produced(rows, "\n".join(lines) or "No documents were found in `source`.", effects)


async def _forget(
    service: MemoryService, preview: ForgetPreview, confirm: str | None, *, sure: bool
) -> Produced[InsertedOutput | list[IntakeOutput] | list[DocumentOutput] | ForgetOutput]:
    entries, documents = await asyncio.to_thread(_described, preview)
    shown = [line_of(each) for each in preview.entries[:_MOST_SHOWN]]
    shown += [f"- [{each['id']}] the document {each['title']} ({each['uri']})" for each in documents]
    total = len(entries) + len(documents)
    if not total:
        nothing = ForgetOutput(deleted=False, confirm=None, entries=[], documents=[], still_in=[])
        return Produced(nothing, "Nothing matches, so nothing was deleted.")
    if not sure and confirm != preview.code:
        output = ForgetOutput(deleted=False, confirm=preview.code, entries=entries, documents=documents, still_in=[])
        changed = "The matches have changed since the preview. " if confirm else ""
        lines = [
            f"{changed}Nothing was deleted yet. Entries and documents that would be deleted permanently: {total}",
            *shown,
        ]
        lines += [f"… and {total - len(shown)} more"] if total > len(shown) else []
        lines.append(f"If the user agrees, repeat the call with confirm={preview.code!r}.")
        return Produced(output, "\n".join(lines))
    erased = await service.forget(preview)
    still = [str(path) for path in erased.remaining]
    output = ForgetOutput(deleted=True, confirm=None, entries=entries, documents=documents, still_in=still)
    lines = [f"Deleted entries: {erased.entries}, documents: {erased.documents}."]
    lines += [f"These files still contain a deleted text: {', '.join(still)}."] if still else []
    return Produced(output, "\n".join(lines), (f"forgot:{erased.entries + erased.documents}",))


def _described(preview: ForgetPreview) -> tuple[list[EntryOutput], list[DocumentOutput]]:
    return [describe(each) for each in preview.entries], [describe_document(each) for each in preview.documents]

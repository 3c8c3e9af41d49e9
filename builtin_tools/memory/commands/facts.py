"""The commands `knackbox memory search|list|show|add|forget|export|import`."""

import asyncio
import sys
import textwrap
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from builtin_tools.memory.descriptions import (
    describe,
    describe_document,
    describe_hit,
    iso,
    line_of,
    line_of_hit,
    source_in_words,
)
from builtin_tools.memory.entries import Entry, EntryKind
from builtin_tools.memory.export_reader import ImportRefused
from builtin_tools.memory.recall import RecallRequest
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.service import FactToAdd, ForgetPreview, MemoryService
from builtin_tools.memory.transfer import export_lines, import_lines
from engine.app.engine import Engine
from engine.contract.failure import ConfigError, ToolFailure
from engine.contract.turn import Turn
from engine.interfaces.cli.progress_bar import ProgressBar
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, read_input, say, wants_json
from engine.interfaces.cli.spinner import shown_later, working
from engine.interfaces.cli.tables import print_table
from engine.stores.atomic import write_atomic
from engine.stores.locks import StoreBusy

T = TypeVar("T")
User = Annotated[str, typer.Option("--user", help="The user whose memory to use; the default is this machine's user.")]
Space = Annotated[
    list[str] | None, typer.Option("--space", help="Only this space; globs such as 'shared:*' are allowed.")
]
Kind = Annotated[list[EntryKind] | None, typer.Option("--kind", help="Only entries of this kind.")]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, max=100_000, help="Maximum number of entries to show.")]
LOCAL = Turn().user
_MOST_SHOWN = 100  # characters of a text in a list
_COLUMNS = ("id", "kind", "space", "learned", "until", "text")


def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="What you want to know, in your own words.")],
    *,
    user: User = LOCAL,
    space: Space = None,
    kind: Kind = None,
    when: Annotated[
        str, typer.Option(help="When the entry was learned, or a time it mentions: 'yesterday morning', '2024-03-05'.")
    ] = "",
    as_of: Annotated[str, typer.Option(help="Only facts that were true at this time.")] = "",
    history: Annotated[bool, typer.Option("--history", help="Also show facts that are no longer true.")] = False,
    around: Annotated[
        int, typer.Option(min=0, max=5, help="Also show this many passages before and after a passage.")
    ] = 0,
    limit: Limit = 8,
    as_json: Json = False,
) -> None:
    """Search facts, documents, lessons and the profile, best match first."""
    request = RecallRequest(
        query, kind, space, when=when, as_of=as_of, history=history, limit=min(limit, 50), around=around
    )
    found = _with_memory(ctx, "searching", lambda memory: memory.recall(Turn(user=user), request))
    if wants_json(ctx, as_json):
        emit_json({"hits": [describe_hit(hit) for hit in found.hits], "note": found.note})
        return
    for hit in found.hits:
        emit(line_of_hit(hit))
    if found.note:
        say(found.note)


def list_(
    ctx: typer.Context,
    *,
    user: User = LOCAL,
    space: Space = None,
    kind: Kind = None,
    documents: Annotated[bool, typer.Option("--documents", help="List documents instead of entries.")] = False,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List entries, newest first, including those that are no longer true."""
    turn = Turn(user=user)
    if documents:
        found = _with_memory(ctx, "reading", lambda memory: memory.list_documents(turn, space))
        rows: list[dict[str, object]] = [dict(describe_document(each)) for each in found]
        if wants_json(ctx, as_json):
            emit_json(rows)
        elif rows:
            columns = ("id", "title", "uri", "space", "characters", "learned")
            print_table(columns, [[str(dict(row)[column]) for column in columns] for row in rows])
        else:
            say("no documents are stored.")
        return
    entries = _with_memory(ctx, "reading", lambda memory: memory.entries(turn, kind, space, limit=limit))
    if wants_json(ctx, as_json):
        emit_json([describe(each) for each in entries])
    elif entries:
        print_table(_COLUMNS, [_cells(each) for each in entries])
    else:
        say("the memory is empty.")


def show(
    ctx: typer.Context,
    entry_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the entry, from `knackbox memory list`.")],
    user: User = LOCAL,
    as_json: Json = False,
) -> None:
    """Show an entry with its source, and the entries that it replaced or that replaced it."""
    history = _with_memory(ctx, "reading", lambda memory: memory.history(Turn(user=user), entry_id))
    if not history:
        fail(f"{user} has no entry {entry_id!r}. `knackbox memory list --user {user}` lists the entries.", Exit.USAGE)
    if wants_json(ctx, as_json):
        emit_json([describe(each) for each in history])
        return
    for each in history:
        until = "" if each.holds_to is None else f", until {iso(each.holds_to)}"
        emit(f"{'*' if each.id == entry_id else ' '} {each.text}")
        emit(f"    {each.kind.value} {each.id}, {each.space}, {source_in_words(each)}")
        emit(f"    learned {iso(each.learned)}, holds from {iso(each.begins)}{until}")


def add(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(help="One statement, such as 'The deadline is Friday.'")],
    *,
    user: User = LOCAL,
    space: Annotated[str, typer.Option(help="personal:<name> or shared:<name>.")] = "",
    since: Annotated[str, typer.Option(help="From when the fact is true, such as '2024-03-05' or 'last Monday'.")] = "",
    until: Annotated[str, typer.Option(help="Until when the fact is true.")] = "",
    as_json: Json = False,
) -> None:
    """Add a fact. Facts that it contradicts are marked as no longer true, and kept."""
    fact = FactToAdd(text, space, since=since, until=until)
    added = _with_memory(ctx, "storing", lambda memory: memory.add(Turn(user=user), fact))
    if wants_json(ctx, as_json):
        replaced = [describe(each) for each in added.closed]
        undecided = [describe(each) for each in added.open]
        emit_json({"entry": describe(added.entry), "known": added.known, "replaced": replaced, "undecided": undecided})
        return
    emit(f"{'already known' if added.known else 'stored'}: {added.entry.id}")
    for each in added.closed:
        emit(f"  it replaces {line_of(each)[2:]}")
    for each in added.open:
        emit(f"  it may contradict {line_of(each)[2:]}")


def forget(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="Words that the entries contain, or a description of them.")] = "",
    *,
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="The id of an entry, from `knackbox memory list`.")
    ] = None,
    document: Annotated[str, typer.Option(help="The id, path or URL of a document.")] = "",
    everything: Annotated[
        bool, typer.Option("--everything", help="Delete everything in this user's own spaces.")
    ] = False,
    user: User = LOCAL,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Delete entries permanently, also from indexes and backups.

    The output names files that still contain a deleted text.
    """
    if sum((bool(query), bool(ids), bool(document), everything)) != 1:
        fail("name exactly one of QUERY, --id, --document and --everything.", Exit.USAGE)
    turn = Turn(user=user)
    preview = _with_memory(
        ctx, "searching", lambda memory: memory.preview(turn, query=query, ids=ids or (), document=document)
    )
    if not preview.entries and not preview.documents:
        if wants_json(ctx, as_json):
            emit_json({"deleted": 0, "still_in": []})
        else:
            say("nothing matches, so nothing was deleted.")
        return
    if not yes:
        _confirm(preview)
    with reported(), shown_later(ProgressBar("erasing")) as bar:

        async def erase(engine: Engine) -> Any:
            memory = engine.need(MemoryService)
            if everything:
                return await memory.forget_user(user, bar.count)
            return await memory.forget(preview, bar.count)

        erased = with_engine(ctx, erase, bar)
    still = [str(path) for path in erased.remaining]
    if wants_json(ctx, as_json):
        emit_json({"deleted": erased.entries, "documents": erased.documents, "still_in": still})
        return
    emit(f"deleted entries: {erased.entries}, documents: {erased.documents}.")
    for path in still:
        say(f"{path} still contains a deleted text.")


def export(
    ctx: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; the default is stdout.")
    ] = None,
    user: User = LOCAL,
) -> None:
    """Export everything that the user may read as JSON Lines, for `knackbox memory import`."""

    async def work(engine: Engine) -> list[str]:
        memory, now = engine.need(MemoryService), engine.services.clock.now()
        scope = MemoryScope.of(Turn(user=user))
        return await asyncio.to_thread(lambda: list(export_lines(memory.store, scope, now.isoformat())))

    with reported(), working("exporting") as spinner:
        lines = with_engine(ctx, work, spinner)
    text = "".join(f"{line}\n" for line in lines)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        write_atomic(output, text.encode())
    except OSError as error:
        fail(f"{output} cannot be written ({error.strerror or error}): name a file in an existing folder.", Exit.USAGE)
    say(f"{output}: {len(lines) - 1} lines.")


def import_(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FILE", help="An export; - for stdin.")],
    user: User = LOCAL,
    as_json: Json = False,
) -> None:
    """Import an export, with the sources and times of its entries. Importing it again changes nothing."""
    lines = read_input(source, "The export").decode("utf-8", "replace").split("\n")

    async def work(engine: Engine) -> Any:
        memory = engine.need(MemoryService)
        return await asyncio.to_thread(import_lines, memory.store, MemoryScope.of(Turn(user=user)), lines)

    with reported(), working("importing") as spinner:
        done = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json({"entries": done.entries, "documents": done.documents, "known": done.known})
    else:
        skipped = f"; skipped because already stored: {done.known}" if done.known else ""
        emit(f"imported entries: {done.entries}, documents: {done.documents}{skipped}.")


@contextmanager
def reported() -> Iterator[None]:
    """Turn exceptions of the memory into a one-line error message that ends the command."""
    try:
        yield
    except ImportRefused as error:
        fail(str(error), Exit.USAGE)
    except ToolFailure as error:
        fail(str(error), Exit.FAILED)
    except StoreBusy as error:
        raise ConfigError(str(error)) from error


def _with_memory(ctx: typer.Context, label: str, work: Callable[[MemoryService], Coroutine[Any, Any, T]]) -> T:
    """Open the engine and run `work` on its memory."""
    with reported(), working(label) as spinner:
        return with_engine(ctx, lambda engine: work(engine.need(MemoryService)), spinner)


def _confirm(preview: ForgetPreview) -> None:
    for each in preview.entries:
        say(line_of(each)[2:])
    for document in preview.documents:
        say(f"the document {document.title} ({document.uri})")
    total = len(preview.entries) + len(preview.documents)
    if not sys.stdin.isatty():
        fail(f"this would permanently delete {total} in total. Add --yes to delete without being asked.", Exit.USAGE)
    if not typer.confirm(f"Permanently delete {total} in total?", err=True):
        fail("nothing was deleted.", Exit.FAILED)


def _cells(entry: Entry) -> list[str]:
    until = "" if entry.holds_to is None else iso(entry.holds_to)[:16]
    text = textwrap.shorten(entry.text, _MOST_SHOWN, placeholder=" …")
    return [entry.id, entry.kind.value, entry.space, iso(entry.learned)[:16], until, text]

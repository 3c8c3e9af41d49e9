"""The commands `knackbox memory ingest|profile|lessons|dream`, for documents, profile, lessons and consolidation."""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from builtin_tools.memory.commands.facts import LOCAL, User, reported
from builtin_tools.memory.documents.formats import SUFFIXES
from builtin_tools.memory.documents.ingestion import FoundDocument
from builtin_tools.memory.documents.several import each_of
from builtin_tools.memory.documents.workspace_intake import WorkspaceIntake
from builtin_tools.memory.dream.dreaming import Dreaming
from builtin_tools.memory.dream.plan import DreamPlan
from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.lessons.lesson import Lesson
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.profile import PROFILE, Profile, ProfileError, ProfileItem
from builtin_tools.memory.scope import GENERAL, MemoryScope
from engine.app.engine import Engine
from engine.contract.failure import ToolFailure
from engine.contract.turn import Turn
from engine.interfaces.cli.progress_bar import ProgressBar
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.spinner import shown_later, working
from engine.interfaces.cli.tables import print_table
from engine.stores.call_views import AuditView
from engine.turn.discovery import Discovery

Row = dict[str, Any]


def ingest(
    ctx: typer.Context,
    paths: Annotated[list[Path], typer.Argument(exists=True, help="Documents, or folders with documents.")],
    *,
    user: User = LOCAL,
    space: Annotated[str, typer.Option("--space", help="The memory space for the passages.")] = GENERAL,
    watch: Annotated[
        bool, typer.Option("--watch", help="Also take in documents when they change, until Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take documents into the memory: PDF, DOCX, PPTX, XLSX, EPUB, HTML, Markdown, text, CSV and JSON.

    Each document is read in a box. Unchanged documents are skipped; the passages of changed documents are replaced.
    """
    bar = ProgressBar("reading documents")

    async def work(engine: Engine) -> list[Row]:
        rows = await _take_in(engine, _documents(paths), user, space, bar)
        if watch:
            for row in rows:
                say(_ingested(row))
            with _until_interrupted() as stop:
                say("watching for changes; end with Ctrl-C.")
                async for changed in _changes(paths, stop):
                    for row in await _take_in(engine, changed, user, space, bar):
                        say(_ingested(row))
            rows = []
        return rows

    with reported(), shown_later(bar):
        rows = with_engine(ctx, work, bar)
    if wants_json(ctx, as_json):
        emit_json(rows)
    else:
        for row in rows:
            emit(_ingested(row))
    if rows and all(row["problem"] for row in rows):
        raise typer.Exit(int(Exit.FAILED))


def profile(
    ctx: typer.Context,
    key: Annotated[str | None, typer.Argument(help="The key to show, set or remove, such as home_city.")] = None,
    value: Annotated[str | None, typer.Argument(help="The new value.")] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the key.")] = False,
    user: User = LOCAL,
    as_json: Json = False,
) -> None:
    """Show the facts about the user that are part of every prompt, or set or remove one.

    If only a key is given, show its history.
    """
    source = EntrySource(SourceKind.USER, user=user)

    async def work(engine: Engine) -> list[Row]:
        kept, owner = engine.need(Profile), MemoryScope.of(Turn(user=user)).owner(PROFILE)
        if key is not None and remove:
            if await asyncio.to_thread(kept.remove, owner, key) is None:
                raise ProfileError(f"The profile has no {key!r}.")
        elif key is not None and value is not None:
            await asyncio.to_thread(kept.set, owner, key, value, source)
        elif key is not None:
            return [_past(item) for item in await asyncio.to_thread(kept.history, owner, key)]
        return [_item(item) for item in await asyncio.to_thread(kept.items, owner)]

    try:
        with reported(), working("reading") as spinner:
            rows = with_engine(ctx, work, spinner)
    except ProfileError as error:
        fail(str(error), Exit.USAGE)
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif rows:
        print_table(tuple(rows[0]), [[str(cell) for cell in row.values()] for row in rows])
    else:
        say("the profile is empty." if key is None else f"nothing is known as {key}.")


def lessons(ctx: typer.Context, user: User = LOCAL, as_json: Json = False) -> None:
    """Show the lessons: mistakes, their fixes, and how often each lesson was shown, followed and helpful."""

    async def work(engine: Engine) -> list[Row]:
        owner = MemoryScope.of(Turn(user=user)).owner(LESSONS)
        return [_lesson(each) for each in await asyncio.to_thread(engine.need(LessonBook).all, {owner: [LESSONS]})]

    with reported(), working("reading") as spinner:
        rows = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif rows:
        columns = ("mistake", "fix", "where", "count", "shown", "followed", "helped")
        print_table(columns, [[str(row[column]) for column in columns] for row in rows])
    else:
        say("no lessons yet.")


def dream(
    ctx: typer.Context,
    action: Annotated[Literal["plan", "show", "apply", "undo", "list"], typer.Argument(help="What to do.")] = "plan",
    plan: Annotated[str, typer.Option("--plan", help="The id of a plan; the default is the newest.")] = "",
    user: User = LOCAL,
    as_json: Json = False,
) -> None:
    """Consolidate the memory: make a plan, show it, apply it, or undo it. Nothing is deleted."""
    turn = Turn(user=user)

    async def work(engine: Engine) -> list[Row]:
        dreaming = engine.need(Dreaming)
        plans = await dreaming.plans(turn) if action == "list" else [await _chosen_plan(engine, turn, action, plan)]
        return [await _plan(dreaming, each) for each in plans]

    with reported(), working("consolidating") as spinner:
        rows = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json(rows if action == "list" else rows[0])
        return
    for row in rows:
        for line in _plan_lines(row, steps=action != "list"):
            emit(line)
    if not rows:
        say("there are no plans yet.")
    elif action == "plan" and rows[0]["steps"]:
        say("to apply the plan: knackbox memory dream apply; to undo it: knackbox memory dream undo.")


async def _chosen_plan(engine: Engine, turn: Turn, action: str, plan_id: str) -> DreamPlan:
    """Make a plan, or find an existing one and show, apply or undo it.

    Raises:
        ToolFailure: There is no such plan.
    """
    dreaming = engine.need(Dreaming)
    if action == "plan":
        calls = engine.need(AuditView)
        specs = await engine.need(Discovery).look_up(await dreaming.called(turn, calls), turn)
        return await dreaming.make(turn, engine.services.llm_client, calls, tuple(specs.values()))
    known = await dreaming.get(turn, plan_id)
    if known is None:
        raise ToolFailure("there is no such plan. `knackbox memory dream` makes one.", reason="not_found")
    if action == "apply":
        return await dreaming.apply(known)
    return await dreaming.undo(known) if action == "undo" else known


async def _take_in(engine: Engine, documents: Sequence[Path], user: str, space: str, bar: ProgressBar) -> list[Row]:
    owner = MemoryScope.of(Turn(user=user)).owner(space)
    ingestion = engine.need(WorkspaceIntake).ingestion(engine.sandbox)
    source = EntrySource(SourceKind.DOCUMENT, user=user)
    completed = itertools.count(1)

    async def take_in(path: Path) -> Row:
        row: Row = {"path": str(path), "id": "", "status": "", "passages": 0, "notes": [], "problem": ""}
        try:
            found = FoundDocument(str(path), await asyncio.to_thread(path.read_bytes))
            done = await ingestion.ingest(found, owner=owner, space=space, source=source)
        except ToolFailure as error:
            row["problem"] = str(error)
        except OSError as error:
            row["problem"] = f"{path}: cannot be read ({error.strerror})."
        else:
            notes = list(done.notes)
            row |= {"id": done.document.id, "status": done.status.value, "passages": done.passages, "notes": notes}
        bar.count(next(completed), len(documents))
        return row

    bar.count(0, len(documents))
    return await each_of(documents, take_in)


def _documents(paths: Sequence[Path]) -> list[Path]:
    """Return the documents at the paths, including all documents in folders, in order."""
    found: list[Path] = []
    for path in paths:
        whole = path.absolute()
        inside = (each for each in sorted(whole.rglob("*")) if each.is_file() and each.suffix.lower() in SUFFIXES)
        found += inside if whole.is_dir() else [whole]
    return list(dict.fromkeys(found))


@contextmanager
def _until_interrupted() -> Iterator[asyncio.Event]:
    """Yield an event that Ctrl-C sets, so that the current documents are still stored. A second Ctrl-C cancels them."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:  # as in the background jobs of a script
        yield stop
        return

    def restore() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)

    def interrupt() -> None:
        restore()
        stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield stop
    finally:
        restore()


async def _changes(paths: Sequence[Path], stop: asyncio.Event) -> AsyncIterator[list[Path]]:
    """Yield the documents that were added or changed, as the operating system reports them, until `stop` is set."""
    from watchfiles import Change, awatch  # noqa: PLC0415 -- only for --watch

    async for changes in awatch(*paths, stop_event=stop):
        changed = {Path(path) for change, path in changes if change is not Change.deleted}
        readable = sorted(path for path in changed if path.suffix.lower() in SUFFIXES and path.is_file())
        if readable:
            yield readable


def _ingested(row: Row) -> str:
    if row["problem"]:
        return f"not taken in: {row['problem']}"
    notes = f" {' '.join(row['notes'])}" if row["notes"] else ""
    count = "1 passage" if row["passages"] == 1 else f"{row['passages']} passages"
    return f"{row['path']}: {row['status'].replace('_', ' ')}, {count}.{notes}"


def _item(item: ProfileItem) -> Row:
    return {"key": item.key, "value": item.value, "since": _time(item.since)}


def _past(item: ProfileItem) -> Row:
    return {"value": item.value, "since": _time(item.since), "until": "" if item.until is None else _time(item.until)}


def _lesson(lesson: Lesson) -> Row:
    what = lesson.what
    return {
        "id": lesson.id,
        "mistake": what.mistake,
        "fix": what.fix,
        "where": what.where,
        "origin": what.origin.value,
        "draft": lesson.draft,
        "evidence": list(what.evidence),
        "count": lesson.count,
        "shown": lesson.shown,
        "followed": lesson.followed,
        "helped": lesson.helped,
    }


async def _plan(dreaming: Dreaming, plan: DreamPlan) -> Row:
    steps = await dreaming.lines(plan)
    return {"plan": plan.id, "made": _time(plan.made), "complete": plan.complete, "steps": steps}


def _plan_lines(row: Row, *, steps: bool) -> list[str]:
    count = "1 step" if len(row["steps"]) == 1 else f"{len(row['steps'])} steps"
    head = f"plan {row['plan']} of {row['made']}: {count}{'' if row['complete'] else ', incomplete'}"
    return [head, *(f"  {step}" for step in row["steps"])] if steps else [head]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="minutes")

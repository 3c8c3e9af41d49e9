"""The commands `knackbox memory profile|lessons|dream`, for what is learned about a user and from mistakes."""

import asyncio
from datetime import datetime
from typing import Annotated, Any, Literal

import typer

from builtin_tools.memory.commands.facts import LOCAL, User, reported
from builtin_tools.memory.dream.dreaming import Dreaming
from builtin_tools.memory.dream.plan import DreamPlan
from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.lessons.lesson import Lesson
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.profile import PROFILE, Profile, ProfileError, ProfileItem
from builtin_tools.memory.scope import MemoryScope
from engine.app.engine import Engine
from engine.contract.failure import ToolFailure
from engine.contract.turn import Turn
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from engine.stores.call_views import AuditView
from engine.turn.discovery import Discovery

Row = dict[str, Any]


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

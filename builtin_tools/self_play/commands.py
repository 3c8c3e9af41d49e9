"""Let the agent practise, and list or undo what it kept.

The commands `knackbox play …`, for people. Entry point of the group ``knackbox.commands``.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer

from builtin_tools.self_play.changing import ChangedSince
from builtin_tools.self_play.cycles import Cycle
from builtin_tools.self_play.play_loop import AFTER, NOW, PlayLoop, outcome
from builtin_tools.self_play.self_play import SelfPlay
from builtin_tools.self_play.store import PlayBusy, UnknownCycle, cycle_json
from engine.app.engine import Engine
from engine.contract.turn import Turn
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table

LOCAL = Turn().user
ALL = "all"
Model = Annotated[str, typer.Option("--model", help="Another model of the configured provider.")]
User = Annotated[str, typer.Option("--user", help="The user; the default is this machine's user.")]

app = typer.Typer(
    help="Self-play, practice that keeps only what checks prove: run, loop, stop, list, show, undo.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def run(ctx: typer.Context, *, model: Model = "", user: User = LOCAL, as_json: Json = False) -> None:
    """Play one cycle, for at most 600 seconds. Ctrl-C rolls it back."""

    with _reported(), working("playing") as spinner:

        async def work(engine: Engine) -> Cycle:
            _check_model(engine)
            return await engine.need(SelfPlay).play(Turn(user=user), model, spinner.tell)

        cycle = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json(cycle_json(cycle))
    else:
        emit(outcome(cycle))


@app.command()
def loop(
    ctx: typer.Context,
    *,
    max_cycles: Annotated[int, typer.Option("--max-cycles", min=0, help="Stop after so many; 0 for no limit.")] = 0,
    model: Model = "",
    user: User = LOCAL,
    as_json: Json = False,
) -> None:
    """Play cycles until a message of a user, knackbox play stop, or Ctrl-C."""

    async def work(engine: Engine) -> tuple[str, int]:
        _check_model(engine)
        playing = engine.need(PlayLoop)
        await playing.begin(Turn(user=user), max_cycles, model)
        why = await playing.ended()
        row = await asyncio.to_thread(engine.need(SelfPlay).store.loop)
        return why, row.cycles if row is not None else 0

    with _reported(), working("playing") as spinner:
        why, cycles = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json({"cycles": cycles, "why": why})
    else:
        emit(f"The loop has ended after {cycles} cycles. {why}")


@app.command()
def stop(
    ctx: typer.Context,
    now: Annotated[bool, typer.Option("--now", help="Stop at once, and roll the current cycle back.")] = False,
) -> None:
    """Stop the loop of this home after its current cycle, whatever process runs it."""

    async def work(engine: Engine) -> str:
        playing = engine.need(PlayLoop)
        if await playing.stop(NOW if now else AFTER, "It was stopped on request.") is None:
            return "no loop is running."
        if now and await playing.until_stopped():
            return "the loop has stopped."
        return "the loop stops after its current cycle."

    with working("stopping") as spinner:
        said = with_engine(ctx, work, spinner)
    say(said)


@app.command("list")
def list_(
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Maximum number of cycles to show.")] = 20,
    as_json: Json = False,
) -> None:
    """List the cycles, newest first."""

    async def work(engine: Engine) -> list[Cycle]:
        return await asyncio.to_thread(engine.need(SelfPlay).store.cycles, limit)

    with working("reading") as spinner:
        cycles = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json([cycle_json(each) for each in cycles])
    elif cycles:
        rows = [(str(each.number), _when(each), each.state.value, _change(each), each.why[:80]) for each in cycles]
        print_table(("cycle", "started (UTC)", "state", "change", "why"), rows)
    else:
        say("no cycle has been played. Start one with knackbox play run.")


@app.command()
def show(ctx: typer.Context, number: Annotated[int, typer.Argument(metavar="CYCLE")], as_json: Json = False) -> None:
    """Show a cycle: the weakness, the task with its checks, the change, and the comparison."""

    async def work(engine: Engine) -> Cycle:
        return await asyncio.to_thread(engine.need(SelfPlay).store.one, number)

    with _reported(), working("reading") as spinner:
        cycle = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json(cycle_json(cycle))
        return
    emit("\n".join(report(cycle)))


@app.command()
def undo(
    ctx: typer.Context,
    which: Annotated[str, typer.Argument(metavar="CYCLE|all", help="The number of a cycle, or all.")],
    as_json: Json = False,
) -> None:
    """Take back everything that a cycle, or all cycles, did."""
    if which != ALL and not which.isdecimal():
        fail(f"{which!r} is neither the number of a cycle nor {ALL}.", Exit.USAGE)

    async def work(engine: Engine) -> list[Cycle]:
        play = engine.need(SelfPlay)
        return await play.undo_all() if which == ALL else [await play.undo(int(which))]

    with _reported(), working("undoing") as spinner:
        undone = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json([cycle_json(each) for each in undone])
    else:
        say(f"undone: {', '.join(str(each.number) for each in undone) or 'nothing; there are no cycles'}.")


def report(cycle: Cycle) -> list[str]:
    """Return a cycle as lines for people."""
    lines = [outcome(cycle), f"Started: {_when(cycle)} UTC, {max(cycle.ended - cycle.started, 0):.0f} s"]
    lines.append(f"Tokens: {cycle.tokens}")
    if cycle.weakness is not None:
        lines.append(f"Weakness: {cycle.weakness.text}")
    if cycle.task is not None:
        for name, exercise in (("Practice", cycle.task.practice), ("Exam", cycle.task.exam)):
            lines += [f"{name}: {exercise.question}", *(f"    {line}" for line in exercise.check.splitlines())]
    if cycle.change is not None:
        lines.append(f"Change: {_change(cycle)}{' (merged)' if cycle.change.merged else ''}")
    compared = cycle.held_out
    if compared.tasks:
        lines.append(f"Held-out tasks solved: {compared.before} before, {compared.after} after, of {compared.tasks}")
    return lines


def _change(cycle: Cycle) -> str:
    change = cycle.change
    if change is None:
        return "-"
    return f"{change.kind} {change.what}{f' v{change.version}' if change.version else ''}"


def _when(cycle: Cycle) -> str:
    return datetime.fromtimestamp(cycle.started, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _check_model(engine: Engine) -> None:
    if not engine.settings.model.configured:
        fail("no model is configured. Set name in [model] of config.toml, or KNACKBOX_MODEL_NAME.", Exit.USAGE)


@contextmanager
def _reported() -> Iterator[None]:
    """End the command with a message if the request cannot be fulfilled."""
    try:
        yield
    except UnknownCycle as error:
        fail(str(error), Exit.USAGE)
    except PlayBusy as error:
        fail(str(error), Exit.FAILED)
    except ChangedSince as error:
        fail(f"it cannot be undone: {error} Nothing of this cycle was changed.", Exit.FAILED)

"""`knackbox runs …`: lists, shows, follows, tells, resumes, cancels, copies and exports runs of the loop."""

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.app.databases import open_run_journal
from engine.app.engine import Engine
from engine.contract.failure import ConfigError
from engine.interfaces.cli import run_text
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.tables import print_table
from engine.stores.atomic import write_atomic
from engine.stores.clock import SystemClock
from engine.stores.run_inbox import PERSON, NewMessage
from engine.stores.run_journal import ENDED, RunBusy, RunEntryRow, RunHasEnded, RunJournal, RunRow

app = typer.Typer(
    help="List, show, follow, tell, resume, cancel, copy and export runs of the loop.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

POLL_S = 0.2
SHOWN = 60  # characters of a message in the list
RunId = Annotated[str, typer.Argument(metavar="ID", help="The run, as `knackbox runs list` shows it.")]


class Format(StrEnum):
    """The formats of `knackbox runs export`."""

    MARKDOWN = "markdown"
    JSONL = "jsonl"
    HTML = "html"


@app.command("list")
def list_(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many runs to list.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    with _journal(ctx) as journal:
        rows = journal.recent(limit)
    if wants_json(ctx, as_json):
        emit_json({"runs": [_object(row) for row in rows]})
        return
    if not rows:
        say("no runs are recorded yet.")
        return
    shown = [(row.id, row.created[:19], row.status, f"{row.user}/{row.agent}", _short(row.message)) for row in rows]
    print_table(("run", "begun", "status", "who", "message"), shown)


@app.command()
def show(ctx: typer.Context, run: RunId, as_json: Json = False) -> None:
    """Show the transcript of a run."""
    with _journal(ctx) as journal:
        row, entries, sent = journal.one(run), journal.entries(run), journal.messages(run)
    unread = [each for each in sent if each.number > run_text.read_upto(entries)]
    if wants_json(ctx, as_json):
        shown = {"entries": [run_text.as_object(each) for each in entries]}
        emit_json(_object(row) | shown | {"undelivered": [asdict(each) for each in unread]})
        return
    emit(run_text.markdown(row, entries))
    for each in unread:
        say(f"not delivered: {'stop, ' if each.stop else ''}from {each.sender}, {each.ts[:19]}: {_short(each.text)}")


@app.command()
def follow(ctx: typer.Context, run: RunId, as_json: Json = False) -> None:
    """Show a run while another process works on it, until it stops. With --json, print one line for each entry."""
    to_json = wants_json(ctx, as_json)
    with _journal(ctx) as journal:
        shown: list[RunEntryRow] = []
        while True:
            row = journal.one(run)  # read first, so that no entry is added between the last look and the end
            new = journal.entries(run, shown[-1].seq if shown else 0)
            known = sum(1 for _ in run_text.pieces(shown))
            shown += new
            if to_json:
                for each in new:
                    emit_json(run_text.as_object(each))
            else:
                for heading, text, _ in list(run_text.pieces(shown))[known:]:
                    emit(f"## {heading}\n{text}".rstrip() + "\n")
            if not row.working and not new:
                say(f"the run {run} is not being worked on: {row.status}.")
                return
            if not new:
                time.sleep(POLL_S)


@app.command()
def resume(ctx: typer.Context, run: RunId, as_json: Json = False) -> None:
    """Continue a run that was interrupted or waits. The exit code is that of `knackbox chat`."""
    # The model client takes seconds to load, and the other commands do not need it.
    from engine.app.conversation import open_conversation, runs_of  # noqa: PLC0415 -- for the reason above
    from engine.interfaces.cli.run_watcher import RunWatcher, as_object, exit_code  # noqa: PLC0415 -- for the same reason

    to_json = wants_json(ctx, as_json)

    async def work(engine: Engine) -> tuple[dict[str, Any], Exit]:
        watcher = RunWatcher(stream=not to_json)
        async with open_conversation(engine, on_event=watcher, stream=not to_json) as conversation:
            report = await conversation.resume(await runs_of(engine).open(run))
        watcher.close(report)
        return as_object(report), exit_code(report)

    report, code = with_engine(ctx, work)
    if to_json:
        emit_json(report)
    raise typer.Exit(int(code))


@app.command()
def tell(
    ctx: typer.Context,
    run: RunId,
    text: Annotated[str, typer.Argument(help="The message.")] = "",
    *,
    stop: Annotated[bool, typer.Option("--stop", help="End the run before its next turn; TEXT is the reason.")] = False,
    sender: Annotated[str, typer.Option("--from", help="The program that sends the message; by default a person.")] = (
        PERSON
    ),
    as_json: Json = False,
) -> None:
    """Send a message to a run, which the model sees at the beginning of its next turn."""
    with _journal(ctx) as journal:
        number = journal.tell(run, NewMessage(text, sender, stop=stop))
        row = journal.one(run)
        if stop and not row.working:
            _end_stopped(journal, run)
            row = journal.one(run)
    if wants_json(ctx, as_json):
        emit_json({"run": run, "message": number, "status": row.status})
        return
    if row.state == ENDED:
        say(f"the run {run} is stopped.")
    elif row.working:
        say(
            f"the run {run} {'will stop before' if stop else 'receives the message at the beginning of'} its next turn."
        )
    else:
        say(f"the run {run} receives the message when it continues: knackbox runs resume {run}.")


@app.command()
def cancel(ctx: typer.Context, run: RunId) -> None:
    """Cancel a run. A process that works on it stops within a second."""
    with _journal(ctx) as journal:
        row = journal.one(run)
        if row.state == ENDED:
            fail(f"the run {run} has already ended: {row.finish}.")
        if row.working:
            journal.ask_to_cancel(run)
            say(f"the process that works on the run {run} will cancel it.")
            return
        _end(journal, run)
    say(f"the run {run} is cancelled.")


@app.command()
def fork(
    ctx: typer.Context,
    run: RunId,
    *,
    turn: Annotated[
        int | None, typer.Option("--turn", min=1, help="The last turn to copy; by default all turns.")
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="A message to the model after the copied turns.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy the first turns of a run to a new run, which `knackbox runs resume` continues."""
    new = secrets.token_hex(4)
    with _journal(ctx) as journal:
        entries = journal.entries(run)
        kept = entries[: _end_of_turn(run, entries, turn)]
        answered, open_calls = _last_round(kept)
        if message is not None and open_calls:
            fail(f"the last copied turn of {run} has calls without results. Choose an earlier one with --turn.")
        if message is None and answered:
            fail(f"the last copied turn of {run} is the answer. Add a --message, or choose an earlier one with --turn.")
        said = {"text": message, "about": "person", "finish": None, "kind": "message"}
        journal.fork(run, new, len(kept), [json.dumps(said, ensure_ascii=False)] if message is not None else [])
    if wants_json(ctx, as_json):
        emit_json({"run": new, "forked_from": run})
        return
    emit(new)


@app.command()
def export(
    ctx: typer.Context,
    run: RunId,
    form: Annotated[Format, typer.Option("--format", help="The format.")] = Format.MARKDOWN,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file; by default stdout.")] = None,
) -> None:
    """Write the transcript of a run as Markdown, JSON Lines or HTML."""
    with _journal(ctx) as journal:
        row, entries = journal.one(run), journal.entries(run)
    text = {
        Format.MARKDOWN: lambda: run_text.markdown(row, entries),
        Format.JSONL: lambda: run_text.json_lines(entries),
        Format.HTML: lambda: run_text.html(row, entries),
    }[form]()
    if out is None:
        emit(text)
        return
    try:
        write_atomic(out, text.encode())
    except OSError as error:
        fail(f"{out}: cannot be written ({error.strerror or error}). Choose another file.", Exit.USAGE)


@contextmanager
def _journal(ctx: typer.Context) -> Iterator[RunJournal]:
    home, settings = settings_of(ctx)
    home.create()
    with open_run_journal(home, settings, SystemClock()) as journal:
        yield journal


def _end(journal: RunJournal, run: str) -> None:
    """End a run that nobody works on."""
    import asyncio  # noqa: PLC0415 -- as the next ones: only this command needs it

    from engine.agent.active_run import cancel_active_run  # noqa: PLC0415 -- loads the model client
    from engine.agent.runs import Runs  # noqa: PLC0415 -- for the same reason

    async def work() -> None:
        await cancel_active_run(await Runs(journal).open(run))

    asyncio.run(work())


def _end_stopped(journal: RunJournal, run: str) -> None:
    """End a run that nobody works on, because a message stops it."""
    import asyncio  # noqa: PLC0415 -- as the next ones: only this command needs it

    from engine.agent.inbox import end_stopped_run  # noqa: PLC0415 -- loads the model client
    from engine.agent.runs import Runs  # noqa: PLC0415 -- for the same reason

    async def work() -> None:
        with suppress(RunBusy, RunHasEnded):  # a worker was faster, and stops by itself
            await end_stopped_run(await Runs(journal).open(run))

    asyncio.run(work())


def _end_of_turn(run: str, entries: list[RunEntryRow], turn: int | None) -> int:
    """Return how many entries belong to the first turns of a run.

    Raises:
        ConfigError: The run has fewer turns.
    """
    kinds = [json.loads(each.entry)["kind"] for each in entries]
    starts = [at for at, kind in enumerate(kinds) if kind == "response"]
    if turn is not None and turn > len(starts):
        raise ConfigError(f"The run {run} has only {len(starts)} turns. Choose one of them with --turn.")
    end = len(entries) if turn is None or turn == len(starts) else starts[turn]
    first = starts[turn - 1] if turn is not None else starts[-1] if starts else 0
    stops = [at for at in range(first, end) if kinds[at] in ("ended", "waits", "message", "delivered", "resumed")]
    return stops[0] if stops else end


def _last_round(entries: list[RunEntryRow]) -> tuple[bool, bool]:
    """Return whether the last response is an answer, and whether it has calls without results."""
    answered = open_calls = False
    calls = 0
    for row in entries:
        each = json.loads(row.entry)
        if each["kind"] == "response":
            calls, answered = len(each["calls"]), not each["calls"]
        calls -= each["kind"] == "result"
        open_calls = calls > 0
    return answered, open_calls


def _object(row: RunRow) -> dict[str, Any]:
    kept = {key: value for key, value in asdict(row).items() if key not in ("setup", "working", "state", "last")}
    return kept | {"status": row.status, "entries": row.last}


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"

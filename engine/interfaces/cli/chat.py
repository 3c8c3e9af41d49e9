"""`knackbox chat`: lets the configured model work on messages with the tools. Only the answer goes to stdout."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from engine.agent.budget import Finish
from engine.agent.events import (
    CallFinished,
    CallProgress,
    CallStarted,
    Event,
    MessageReceived,
    ModelAwaited,
    Nudged,
    Replanned,
    Report,
    TextPiece,
)
from engine.agent.loop import Conversation
from engine.app.conversation import open_conversation
from engine.app.engine import Engine
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Agent, Exit, Json, emit, emit_json, printable, say, wants_json

app = typer.Typer(pretty_exceptions_enable=False)

SHOWN = 160  # characters of arguments and results in one line of the log
RESUMABLE = (Finish.APPROVAL, Finish.MODEL_ERROR)
MAX_PROGRESS_LINES = 20  # progress lines printed for one call


@app.command()
def chat(
    ctx: typer.Context,
    message: Annotated[str | None, typer.Argument(help="The task. Without one, a dialogue starts.")] = None,
    agent: Agent = None,
    as_json: Json = False,
) -> None:
    """Let the configured model work with the tools. The exit code is 1 if there is no answer."""
    json_wanted = wants_json(ctx, as_json)

    async def work(engine: Engine) -> Report | None:
        watcher = Watcher(stream=not json_wanted)
        async with open_conversation(engine, agent=agent, on_event=watcher, stream=not json_wanted) as conversation:
            if message is None and sys.stdin.isatty():
                await dialogue(conversation, watcher)
                return None
            report = await conversation.run(message if message is not None else sys.stdin.read())
            watcher.close(report)
            return report

    report = with_engine(ctx, work)
    if report is None:
        return
    if json_wanted:
        emit_json(as_object(report))
    raise typer.Exit(int(exit_code(report)))


def exit_code(report: Report) -> Exit:
    if report.finish is Finish.ANSWER:
        return Exit.OK
    return Exit.ENVIRONMENT if report.finish is Finish.MODEL_ERROR else Exit.FAILED


async def dialogue(conversation: Conversation, watcher: "Watcher") -> None:
    """Run one message after the other until the end of input. Ctrl-C stops the running message."""
    say("Ctrl-D ends the dialogue; Ctrl-C stops the running message.")
    while True:
        try:
            message = input("> ")  # noqa: ASYNC250 -- nothing else runs between two messages
        except (EOFError, KeyboardInterrupt):
            return
        if not message.strip():
            continue
        task = asyncio.ensure_future(conversation.run(message))
        with interruptible(task):
            try:
                watcher.close(await task)
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise
                say("stopped.")


@contextmanager
def interruptible(task: "asyncio.Future[Any]") -> Iterator[None]:
    """Make Ctrl-C cancel only this task while the context is active."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


class Watcher:
    """Shows the events of a run: streamed text on stdout, calls on stderr."""

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self._err = Console(stderr=True, highlight=False)
        self._streamed = ""
        self._progress_lines: dict[str, int] = {}  # lines printed, by id of the running call

    def __call__(self, event: Event) -> None:
        match event:
            case TextPiece(text):
                self._streamed += text
                sys.stdout.write(text)
                sys.stdout.flush()
            case CallStarted(call):
                self._break_line()
                given = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
                self._err.print(f"[dim]→ {escape(call.name)} {escape(shorten(given))}[/dim]")
            case CallProgress(call, message, fraction):
                count = self._progress_lines[call.id] = self._progress_lines.get(call.id, 0) + 1
                if count <= MAX_PROGRESS_LINES:
                    self._break_line()
                    share = "" if fraction is None else f" {fraction:.0%}"
                    self._err.print(f"[dim]… {escape(printable(shorten(message)))}{share}[/dim]")
            case CallFinished(call, result):
                self._progress_lines.pop(call.id, None)
                mark = "[green]✓[/green]" if result.success else "[red]✗[/red]"
                took = f"{result.audit.duration_ms:.0f} ms"
                self._err.print(f"[dim]{mark} {escape(call.name)} {took} {escape(shorten(result.text))}[/dim]")
            case ModelAwaited(error, wait_s):
                self._break_line()
                self._streamed = ""  # the response starts again
                self._err.print(f"[dim]⏸ {escape(shorten(error))} Trying again in {wait_s:.0f} s.[/dim]")
            case MessageReceived(sender, text, stop):
                self._break_line()
                self._streamed = ""  # what was streamed before it is not the answer
                what = "stop" if stop else "message"
                self._err.print(f"[dim]✉ {what} from {escape(sender)}: {escape(printable(shorten(text)))}[/dim]")
            case Nudged():
                self._break_line()
                self._streamed = ""  # what was streamed before it is not the answer
                self._err.print("[dim]↻ it only announced work, and was told to do it[/dim]")
            case Replanned(reason):
                self._err.print(f"[dim]⟳ new plan: {escape(shorten(reason))}[/dim]")

    def close(self, report: Report) -> None:
        """End the output of one run and print the answer if it was not streamed."""
        if self._stream:
            self._break_line()
            if not self._streamed.rstrip().endswith(report.answer):
                emit(report.answer)
        self._streamed = ""
        if report.finish is not Finish.ANSWER:
            say(f"the run ended without an answer: {report.finish.value}.")
        if report.run and report.finish in RESUMABLE:
            say(f"knackbox runs resume {report.run} continues it.")

    def _break_line(self) -> None:
        if self._streamed and not self._streamed.endswith("\n"):
            self._streamed += "\n"
            sys.stdout.write("\n")
            sys.stdout.flush()


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def as_object(report: Report) -> dict[str, Any]:
    return {
        "run": report.run,
        "finish": report.finish.value,
        "answer": report.answer,
        "turns": report.turns,
        "tokens": report.tokens,
        "calls": [
            {
                "tool": one.call.name,
                "arguments": dict(one.call.arguments),
                "success": one.result.success,
                "text": one.result.text,
                "duration_ms": one.result.audit.duration_ms,
            }
            for one in report.calls
        ],
    }

"""`Dialogue`: the messages, runs and commands of a dialogue. Importing this module takes seconds."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

import typer

from engine.agent.events import Report
from engine.app.engine import Engine
from engine.contract.failure import ConfigError
from engine.interfaces.cli.chat_request import ChatRequest
from engine.interfaces.cli.chat_session import Chat, latest_run, open_chat
from engine.interfaces.cli.line_editor import LineEditor, LineInterrupted
from engine.interfaces.cli.run_watcher import RunWatcher, as_object, shorten
from engine.interfaces.cli.session import opened_engine
from engine.interfaces.cli.shared import emit, emit_json, say
from engine.interfaces.cli.slash_commands import (
    arguments_of,
    help_text,
    is_command,
    refusal_of,
    run_command,
    words_of,
)
from engine.interfaces.cli.spinner import Spinner


async def talk(
    ctx: typer.Context,
    request: ChatRequest,
    editor: LineEditor,
    *,
    first: "asyncio.Task[str]",
    known: Callable[[], Mapping[str, str]],
    spinner: Spinner,
    opened: Callable[[], None],
) -> None:
    """Open an engine and hold a dialogue until the user leaves.

    Args:
        ctx: The context of the command.
        request: The conversation to open.
        editor: Reads the lines.
        first: Reads the first line.
        known: Returns the commands of `knackbox`, with a line of help each.
        spinner: Shown while the model or a tool works.
        opened: Called when the engine and the conversation are open.

    Raises:
        ConfigError: There is no model, or nothing to continue.
        KeyboardInterrupt: The user left while a run was being stopped.
    """
    watcher = RunWatcher(stream=not request.as_json, spinner=spinner)
    dialogue: Dialogue | None = None
    try:
        async with opened_engine(ctx, spinner) as engine:
            dialogue = Dialogue(ctx, engine, watcher, editor=editor, first=first, known=known)
            wanted: ChatRequest | None = request
            while wanted is not None:
                async with open_chat(engine, wanted, watcher, stream=not request.as_json) as chat:
                    opened()
                    wanted = await dialogue.hold(chat, wanted)
    except asyncio.CancelledError:
        if dialogue is not None and dialogue.left:
            raise KeyboardInterrupt from None
        raise


class Dialogue:
    """One dialogue, which may have several conversations one after the other.

    Attributes:
        left: Whether the user pressed Ctrl-C a second time while a run was being stopped.
    """

    def __init__(
        self,
        ctx: typer.Context,
        engine: Engine,
        watcher: RunWatcher,
        *,
        editor: LineEditor,
        first: "asyncio.Task[str]",
        known: Callable[[], Mapping[str, str]],
    ) -> None:
        """Create the object. `watcher` shows the runs; the other arguments are those of `talk`."""
        self.left = False
        self._ctx = ctx
        self._engine = engine
        self._editor = editor
        self._first: asyncio.Task[str] | None = first
        self._watcher = watcher
        self._known = known
        self._latest = ""  # the id of the latest run of the conversation

    async def hold(self, chat: Chat, request: ChatRequest) -> ChatRequest | None:
        """Work on messages and commands. Return the conversation to open next; None to leave."""
        self._latest = chat.unfinished
        if chat.earlier[0] or chat.unfinished:
            await self._withdraw_prompt()
        if chat.earlier[0]:
            said = f" It was answered: {shorten(chat.earlier[1])}" if chat.earlier[1] else ""
            say(f"continuing the conversation after: {shorten(chat.earlier[0])}{said}")
        if chat.unfinished:
            await self._work(chat.resume(), request)
        while True:
            line = await self._next_line()
            if line is None:
                return None
            if is_command(line):
                done, wanted = await self._command(line, request)
                if done:
                    return wanted
            elif line.strip():
                await self._work(chat.conversation.run(line), request)

    async def _withdraw_prompt(self) -> None:
        """Hide the first prompt, which was shown before it was known that something is to be shown above it."""
        if self._first is not None:
            await self._editor.withdraw(self._first)
            if self._first.cancelled():
                self._first = None

    async def _next_line(self) -> str | None:
        """Return the next line; None if the user leaves, with Ctrl-D or by pressing Ctrl-C twice."""
        interrupted = False
        while True:
            reading, self._first = self._first, None
            try:
                return await (reading or self._editor.read())
            except EOFError:
                return None
            except LineInterrupted as error:
                if interrupted and not error.typed:
                    return None
                interrupted = not error.typed
                if interrupted:
                    say("Ctrl-C again or Ctrl-D leaves.")

    async def _work(self, run: Coroutine[Any, Any, Report], request: ChatRequest) -> None:
        """Wait for a run. Ctrl-C stops it, and a second Ctrl-C leaves the program."""
        loop, waiting = asyncio.get_running_loop(), asyncio.current_task()
        task = asyncio.create_task(run, name="run")

        def interrupt() -> None:
            if not task.cancelling():
                task.cancel()
            elif waiting is not None:
                self.left = True
                waiting.cancel()

        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            report = await task
        except asyncio.CancelledError:
            self._watcher.interrupted()
            if self.left or not task.cancelled():
                raise
            say("stopped.")
            return
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        self._latest = report.run
        self._watcher.close(report)
        if request.as_json:
            emit_json(as_object(report))

    async def _command(self, line: str, request: ChatRequest) -> tuple[bool, ChatRequest | None]:
        """Run a command. Return whether the conversation ends here, and which one to open then."""
        try:
            name, *rest = words_of(line.strip())
        except ValueError as error:
            say(f"{line.strip()}: {error}. Close the quotation.")
            return False, None
        match name:
            case "exit" | "quit":
                return True, None
            case "new":
                return True, replace(request, latest=False, resume="")
            case "resume":
                wanted = replace(request, latest=not rest, resume=rest[0] if rest else "")
                return await asyncio.to_thread(self._can_open, wanted), wanted
            case "help":
                emit(help_text(self._known()))
            case "cost":
                say(f"{self._watcher.spent()} in this dialogue, without runs that were stopped.")
            case "cancel":
                await self._cancel(rest[0] if rest else self._latest)
            case _:
                refused = refusal_of(name, self._known())
                if refused:
                    say(refused)
                else:
                    await self._run_command([name, *rest])
        return False, None

    def _can_open(self, request: ChatRequest) -> bool:
        """Return whether there is such a conversation and nobody works on it; if not, say why. Blocks."""
        try:
            latest_run(self._engine, request)
        except ConfigError as error:
            say(str(error))
            return False
        return True

    async def _cancel(self, run: str) -> None:
        if run:
            await self._run_command(["runs", "cancel", run])
        else:
            say("there is no run to cancel. /runs lists all.")

    async def _run_command(self, words: list[str]) -> None:
        home = str(self._engine.services.home.root)
        await run_command(self._ctx, home, arguments_of(words))

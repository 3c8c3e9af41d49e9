"""`LineEditor`: reads the lines of a dialogue at a terminal, with editing, history and completion.

The prompt is shown on stderr if that is a terminal, so that stdout has only answers.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.output import DummyOutput, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import PromptSession

PROMPT = "> "
_PRIVATE = 0o600


class LineInterrupted(Exception):
    """Ctrl-C was typed at the prompt.

    Attributes:
        typed: Whether a line had been begun, which is discarded.
    """

    def __init__(self, *, typed: bool = False) -> None:
        super().__init__()
        self.typed = typed


class LineEditor:
    """Reads one line after the other. `shown` is set once the first prompt is on the screen."""

    def __init__(self, history: Path, commands: Callable[[], Iterable[str]]) -> None:
        """Create the object.

        Args:
            history: The file with the lines typed so far. If it cannot be used, there is no history.
            commands: Returns the names that are completed after a slash.
        """
        self.shown = asyncio.Event()
        self._session: PromptSession[str] = PromptSession(
            history=history_of(history),
            completer=SlashCompleter(commands),
            complete_while_typing=False,
            output=_output(),
            interrupt_exception=LineInterrupted,
        )
        self._session.app.after_render += lambda _: self.shown.set()
        self._begun = ""

    async def read(self) -> str:
        """Return the next line.

        Raises:
            EOFError: The input has ended (Ctrl-D).
            LineInterrupted: Ctrl-C was typed.
        """
        try:
            begun, self._begun = self._begun, ""
            return await self._session.prompt_async(PROMPT, default=begun)
        except LineInterrupted as interrupted:
            raise LineInterrupted(typed=bool(self._session.default_buffer.text)) from interrupted
        finally:
            self.shown.set()  # a dumb terminal renders nothing

    async def withdraw(self, reading: "asyncio.Task[str]") -> None:
        """Hide the prompt of a task that reads a line. What was typed is at the next prompt, which the caller shows.

        Args:
            reading: The task. If it has a line already, nothing happens.
        """
        if reading.done():
            return
        self._begun = self._session.default_buffer.text
        reading.cancel()
        await asyncio.wait([reading])
        output = self._session.output
        output.write_raw("\r")
        output.erase_end_of_line()
        output.flush()


class SlashCompleter(Completer):
    """Completes the first word of a line that begins with a slash."""

    def __init__(self, commands: Callable[[], Iterable[str]]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the commands that begin with what was typed."""
        del complete_event
        typed = document.text_before_cursor
        if typed.startswith("/") and " " not in typed:
            for name in self._commands():
                if name.startswith(typed[1:]):
                    yield Completion(f"/{name}", start_position=-len(typed))


class PrivateHistory(FileHistory):
    """A history file that only its owner can read. Lines that begin with a space are not kept."""

    def store_string(self, string: str) -> None:
        """Append a line to the file."""
        if not string.startswith(" "):
            super().store_string(string)


def history_of(path: Path) -> History:
    """Return the history in a file, or one in memory if the file cannot be used."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _PRIVATE))
    except OSError:
        return InMemoryHistory()
    return PrivateHistory(str(path))


def _output() -> Output:
    """Return the output of the prompt. Without cursor position requests, terminals that ignore them cause no delay."""
    stream = next((each for each in (sys.stderr, sys.stdout) if each.isatty()), None)
    if stream is None:
        return DummyOutput()

    def size() -> Size:
        columns, rows = os.get_terminal_size(stream.fileno())
        return Size(rows=rows or 24, columns=columns or 80)  # some terminals do not know their size

    return Vt100_Output(stream, size, term=os.environ.get("TERM"), enable_cpr=False)

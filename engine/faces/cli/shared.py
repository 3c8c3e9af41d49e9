"""What every command shares: the global options, the exit codes, speaking JSON and failing clearly.

Opening an engine is in `engine.faces.cli.session`, which takes longer to import.
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from engine.app.config import load_settings
from engine.app.home import Home
from engine.app.settings import Settings

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for programs.")]
Agent = Annotated[str | None, typer.Option("--agent", metavar="ID", help="As this registered agent.")]

SPINNER_AFTER_S = 1.0
_WIDE = 100_000  # columns where nobody looks: what reads a table there wants its cells whole
_TOLD = 100  # characters of what a tool reports


class Exit(IntEnum):
    """What the exit code of `knackbox` means."""

    OK = 0
    FAILED = 1  # the tool or the code failed
    USAGE = 2  # the command line or the input is wrong
    ENVIRONMENT = 3  # a protection, the configuration or a store is missing or broken
    INTERRUPTED = 130  # Ctrl-C, as shells have it: 128 + SIGINT


@dataclass(frozen=True, slots=True)
class Options:
    """The options that stand before every command."""

    home: Path | None = None
    unsafe_no_sandbox: bool = False
    as_json: bool = False


def options(ctx: typer.Context) -> Options:
    """The global options of this invocation."""
    found = ctx.find_object(Options)
    return found if found is not None else Options()


def wants_json(ctx: typer.Context, flag: bool) -> bool:
    """Whether `--json` was given, before or after the command."""
    return flag or options(ctx).as_json


def settings_of(ctx: typer.Context) -> tuple[Home, Settings]:
    """The home and the settings of this invocation. Raises ConfigError."""
    home = Home.locate(options(ctx).home, os.environ)
    return home, load_settings(home, os.environ)


def emit_json(value: Any) -> None:
    """One line of JSON on stdout."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if not text.isprintable():  # within strings alone, so that the escapes of JSON stand for the same
        text = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def emit(text: str) -> None:
    """Text on stdout, with one line end. Exactly so for a file or a pipe; at a terminal with nothing it would obey."""
    text = visible(text) if sys.stdout.isatty() else text
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """A remark for the person at the terminal, on stderr."""
    sys.stderr.write(f"knackbox: {visible(text)}\n")
    sys.stderr.flush()


def fail(message: str, code: Exit = Exit.FAILED) -> NoReturn:
    """End the command with one clear line on stderr."""
    say(" ".join(message.split()))
    raise typer.Exit(int(code))


def read_input(source: str, what: str) -> bytes:
    """The bytes of a file, or of stdin for ``-``. Ends the command when they cannot be read."""
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        fail(f"{what}: {source} cannot be read ({error.strerror or error}). Name a file, or - for stdin.", Exit.USAGE)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """A table on stdout. Cells are shown as they are, nothing in them is markup; a `Text` brings its own style."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(visible(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table)


def printable(text: str) -> str:
    """The text without what a terminal would obey."""
    return "".join(character for character in text if character.isprintable())


def visible(text: str) -> str:
    """The text with what a terminal would obey as escapes, such as `\\x1b`; lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


class Spinner:
    """A sign of life on stderr, from a second on, and not while a person is asked something."""

    def __init__(self, status: Status | None, label: str = "") -> None:
        self._status = status
        self._label = label
        self._lock = threading.Lock()
        self._due = False
        self._paused = 0

    def start(self) -> None:
        """It is time for it."""
        with self._lock:
            self._due = True
            self._show()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep the terminal free."""
        with self._lock:
            self._paused += 1
            self._show()
        try:
            yield
        finally:
            with self._lock:
                self._paused -= 1
                self._show()

    def tell(self, message: str, fraction: float | None = None) -> None:
        """Say how far it is, where a person is looking; a `Progress` of a call."""
        if self._status is not None:
            share = "" if fraction is None else f" {fraction:.0%}"
            line = printable(" ".join(message.split())[:_TOLD])
            self._status.update(Text(f"{self._label}: {line}{share}" if line else f"{self._label}{share}"))

    def stop(self) -> None:
        with self._lock:
            self._due = False
            self._show()

    def _show(self) -> None:
        if self._status is not None:
            if self._due and not self._paused:
                self._status.start()
            else:
                self._status.stop()


@contextmanager
def working(label: str) -> Iterator[Spinner]:
    """A spinner on stderr for anything that takes over a second, when a person is looking."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Spinner(None)
        return
    spinner = Spinner(console.status(label), label)
    timer = threading.Timer(SPINNER_AFTER_S, spinner.start)
    timer.daemon = True
    timer.start()
    try:
        yield spinner
    finally:
        timer.cancel()
        timer.join()
        spinner.stop()


def log_to_stderr() -> None:
    """Warnings of the engine become remarks of one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("knackbox: %(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)

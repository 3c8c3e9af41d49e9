"""Code that all commands use: the global options, the exit codes, output as JSON or text, and error messages.

This module is imported before any command runs, so it imports nothing that is slow to load. Code with slow imports is
in other modules (`settings`, `session`, `tables`, `spinner`).
"""

import json
import logging
import sys
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Agent = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Act as this registered agent.")]


class Exit(IntEnum):
    """The exit codes of `knackbox`."""

    OK = 0
    FAILED = 1  # the tool or the code failed
    USAGE = 2  # the command line or the input is wrong
    ENVIRONMENT = 3  # a protection, the configuration or a store is missing or broken
    INTERRUPTED = 130  # Ctrl-C; 128 + SIGINT, as in shells


@dataclass(frozen=True, slots=True)
class Options:
    """The global options."""

    home: Path | None = None
    unsafe_no_sandbox: bool = False
    as_json: bool = False


def options(ctx: typer.Context) -> Options:
    """Return the global options of this invocation."""
    found = ctx.find_object(Options)
    return found if found is not None else Options()


def wants_json(ctx: typer.Context, flag: bool) -> bool:
    """Return whether `--json` was given, before or after the command."""
    return flag or options(ctx).as_json


def emit_json(value: Any) -> None:
    """Print a value as one line of JSON on stdout."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if not text.isprintable():  # JSON has such characters only in strings, where escapes are equivalent
        text = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def emit(text: str) -> None:
    """Print text on stdout, ending with a newline. On a terminal, control characters are shown as escapes."""
    text = visible(text) if sys.stdout.isatty() else text
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Print a message for the user on stderr."""
    sys.stderr.write(f"knackbox: {visible(text)}\n")
    sys.stderr.flush()


def fail(message: str, code: Exit = Exit.FAILED) -> NoReturn:
    """End the command with a one-line message on stderr."""
    say(" ".join(message.split()))
    raise typer.Exit(int(code))


def read_input(source: str, what: str) -> bytes:
    """Read a file, or stdin for ``-``. End the command if it cannot be read.

    Args:
        source: The path of the file, or ``-``.
        what: What is read, for the error message.
    """
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        reason = error.strerror or error
        fail(f"{what}: {source} cannot be read ({reason}). Name a file, or use - for stdin.", Exit.USAGE)


def printable(text: str) -> str:
    """Return the text without control characters."""
    return "".join(character for character in text if character.isprintable())


def visible(text: str) -> str:
    """Return the text with control characters as escapes such as `\\x1b`. Newlines and tabs are kept."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def log_to_stderr() -> None:
    """Log warnings of the engine to stderr, in the format of messages for the user."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("knackbox: %(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)

"""What every command shares: the global options, the exit codes, output as JSON or text, and errors of one line.

It is imported before any command runs, so it imports nothing that is slow to load: what takes longer is in files of
their own (`settings`, `session`, `tables`, `spinner`).
"""

import json
import logging
import sys
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for programs.")]
Agent = Annotated[str | None, typer.Option("--agent", metavar="ID", help="As this registered agent.")]


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


def printable(text: str) -> str:
    """The text without what a terminal would obey."""
    return "".join(character for character in text if character.isprintable())


def visible(text: str) -> str:
    """The text with what a terminal would obey as escapes, such as `\\x1b`; lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def log_to_stderr() -> None:
    """Warnings of the engine become remarks of one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("knackbox: %(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)

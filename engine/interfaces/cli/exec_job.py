"""Converts options of `knackbox exec` to parts of a job. Each function ends the command if its option is invalid."""

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from engine.interfaces.cli.shared import Exit, fail, read_input
from engine.interfaces.cli.spinner import working
from sandbox.contract import Destination, Mount, Writes
from sandbox.egress.rules import canonical_destination

STDIN = "-"


def code_of(file: str | None, given: str | None) -> str:
    """Return the program: the value of `--code`, the text of a file, or stdin."""
    if given is not None:
        return given
    if file is None:
        fail("exec: Missing argument FILE. Name a file, use - for stdin, or pass the code with -c.", Exit.USAGE)
    try:
        return read_input(file, "exec").decode()
    except UnicodeDecodeError as error:
        fail(f"exec: {file} is not UTF-8 text ({error.reason} at byte {error.start}). Convert it to UTF-8.", Exit.USAGE)


def stdin_of(file: str | None) -> bytes:
    """Read all of stdin as the program's input.

    Returns:
        The input; b"" if stdin contains the program itself, or is neither a pipe nor a file.
    """
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # stdin is closed, or is not a real file
        return b""
    if file == STDIN or not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind)):
        return b""
    with working("reading stdin to its end (use < /dev/null for no input)"):
        return sys.stdin.buffer.read()


def mount_of(workspace: Path | None, *, copy: bool, read_only: bool) -> Mount | None:
    """Return the folder to mount at /work."""
    if workspace is None:
        if copy or read_only:
            fail(f"exec: {'--copy' if copy else '--read-only'} needs --workspace.", Exit.USAGE)
        return None
    if copy and read_only:
        fail("exec: use either --copy or --read-only, not both.", Exit.USAGE)
    if not workspace.is_dir():
        fail(f"exec: --workspace {workspace} is not a folder. Name one that exists.", Exit.USAGE)
    writes = Writes.COPY if copy else Writes.NO if read_only else Writes.THROUGH
    return Mount(workspace.resolve(), writes)


def files_of(paths: Sequence[Path]) -> dict[str, bytes]:
    """Return the files to place next to the program, by name."""
    found: dict[str, bytes] = {}
    for path in paths:
        if path.name in found:
            fail(f"exec: --file: two files are called {path.name}. Rename one of them.", Exit.USAGE)
        found[path.name] = read_input(str(path), "exec: --file")
    return found


def destination(text: str) -> Destination:
    """Parse ``HOST:PORT``.

    Raises:
        typer.BadParameter: The text has another form.
    """
    try:
        return canonical_destination(Destination.parse(text.strip()))
    except ValueError as error:
        raise typer.BadParameter(f"{error}. Write the destination like api.example.com:443") from None

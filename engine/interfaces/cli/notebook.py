"""`knackbox run`: a notebook in a boxed kernel, its outputs as text as they come. Needs no home, store or model."""

import asyncio
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.interfaces.cli.notebook_screen import NotebookScreen
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Exit, Json, emit_json, fail, options, read_input, say, wants_json
from engine.interfaces.cli.sizes import kernel_memory
from engine.stores.atomic import write_atomic

BACKENDS = ("namespace", "docker")  # whose boxes can be kernels
TIMEOUT_S = 600.0

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def run(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="NOTEBOOK.ipynb", help="The notebook; in Python.")],
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it there as it was executed.")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Write it over itself as it was executed.")] = False,
    allow_errors: Annotated[bool, typer.Option("--allow-errors", help="Go on after a cell that failed.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Wall time one cell may take.")
    ] = TIMEOUT_S,
    workspace: Annotated[Path | None, typer.Option("--workspace", help="A folder to show at /work.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="The workspace may only be read.")] = False,
    memory: Annotated[
        int | None, typer.Option("--memory", parser=kernel_memory, metavar="SIZE", help="Such as 2GiB.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a notebook in a box: no network, no files but the workspace's, nothing else kept.

    The first cell that fails ends it with 1, and what was executed is written all the same. A cell with the tag
    raises-exception may fail. With --json the last line of stdout is one object, and the outputs are in the file alone.
    """
    target = writable(file, output, in_place=in_place)
    data = read_input(str(file), "run")
    box = box_options(workspace, memory, read_only=read_only) | walls(ctx)
    try:
        # Not at the top: what is behind it is an extra, and takes longer to import than the rest of the command line.
        from sandbox.kernels import notebook as notebooks  # noqa: PLC0415
    except ImportError as error:
        fail(
            f"run: {error.name} is missing. pip install 'knackbox[kernels]', in the environment Knackbox runs in.",
            Exit.ENVIRONMENT,
        )
    try:
        notebook = notebooks.read(data)
    except notebooks.NotANotebook as error:
        fail(f"run: {file} {error}", Exit.USAGE)
    cells = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()]
    json_wanted = wants_json(ctx, as_json)
    started = time.monotonic()
    with NotebookScreen(cells, shows=not json_wanted) as screen:
        work = notebooks.run(
            notebook,
            box,
            timeout_s=timeout,
            allow_errors=allow_errors,
            on_cell=screen.cell,
            on_output=lambda shown: screen.output(shown.kind, shown.text),
        )
        ran = asyncio.run(work)
    if target is not None and ran.writable:
        write(target, notebooks.written(notebook))
    if json_wanted:
        found = {
            "end": ran.ending,
            "cells": len(cells),
            "executed": ran.executed,
            "failed_cell": ran.cell,
            "why": ran.why,
            "output": str(target) if target is not None and ran.writable else None,
            "wall_s": round(time.monotonic() - started, 3),
        }
        emit_json(found)
    elif ran.ending != "ok":
        at = "the kernel" if ran.cell is None else f"cell {cells.index(ran.cell) + 1} of {len(cells)}"
        remark(at, ran.why, shown=workspace is not None)
    if target is not None and not ran.writable:
        say(f"{target} is not written: the kernel sent outputs that no notebook can hold.")
    raise typer.Exit(int(Exit.OK if ran.ending == "ok" and ran.writable else Exit.FAILED))


def writable(file: Path, output: Path | None, *, in_place: bool) -> Path | None:
    """Where the executed notebook goes. Ends the command, before anything has run, when it cannot be written there."""
    if output is not None and in_place:
        fail("run: give one of --output and --in-place.", Exit.USAGE)
    if not file.is_file():
        fail(f"run: {file} is {'a folder' if file.is_dir() else 'not there'}. Name a notebook.", Exit.USAGE)
    target = file.resolve() if in_place else output
    if target is not None and (target.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK)):
        fail(f"run: {target} cannot be written. Name a file in a folder that is there and yours.", Exit.USAGE)
    return target


def box_options(workspace: Path | None, memory: int | None, *, read_only: bool) -> dict[str, Any]:
    """What the kernel's provisioner is told. Ends the command when it makes no sense."""
    if workspace is None and read_only:
        fail("run: --read-only says nothing without --workspace.", Exit.USAGE)
    if workspace is not None and not workspace.is_dir():
        fail(f"run: --workspace {workspace} is not a folder. Name one that is there.", Exit.USAGE)
    box: dict[str, Any] = {"memory_bytes": memory} if memory is not None else {}
    if workspace is not None:
        box |= {"workspace": str(workspace.resolve()), "read_only": read_only}
    return box


def walls(ctx: typer.Context) -> dict[str, Any]:
    """What the provisioner is told of the configured sandbox. Never another one than was asked for."""
    if options(ctx).unsafe_no_sandbox:
        fail("run: a notebook runs in a box only. Leave --unsafe-no-sandbox out.", Exit.USAGE)
    _, settings = settings_of(ctx)
    if settings.sandbox not in BACKENDS:
        fail(
            f"run: kernels are not offered by the sandbox {settings.sandbox!r}. "
            f"For this run: KNACKBOX_SANDBOX={BACKENDS[0]} knackbox run …",
            Exit.ENVIRONMENT,
        )
    if settings.sandbox != "docker":
        return {"backend": settings.sandbox}
    docker = settings.docker
    return {"backend": "docker", "image": docker.image, "runtime": docker.runtime, "engine_url": docker.url}


def write(target: Path, data: bytes) -> None:
    """The executed notebook, wholly or not at all."""
    try:
        write_atomic(target, data)
    except OSError as error:
        fail(
            f"run: {target} cannot be written ({error.strerror or error}). What was executed is lost.", Exit.ENVIRONMENT
        )


def remark(at: str, why: str, *, shown: bool) -> None:
    """Why it stopped, on stderr; and where the reason may be ours, what to do."""
    say(f"{at} ended the run: {why}")
    if why.startswith("FileNotFoundError") and not shown:
        say("a box has none of your files; --workspace DIR shows it a folder.")
    if why.startswith("ModuleNotFoundError"):
        say("in a box there are the packages of the environment that Knackbox runs in.")

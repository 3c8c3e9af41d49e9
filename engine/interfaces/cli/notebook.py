"""`knackbox run`: runs a notebook in a boxed kernel and shows its outputs as text. It needs no home, store or model."""

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

BACKENDS = ("namespace", "docker")  # sandbox backends that support kernels
TIMEOUT_S = 600.0

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def run(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="NOTEBOOK.ipynb", help="The notebook. Its language must be Python.")],
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the executed notebook to this file.")
    ] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Overwrite the notebook with the executed one.")] = False,
    allow_errors: Annotated[bool, typer.Option("--allow-errors", help="Continue after a failed cell.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Wall time limit of one cell.")
    ] = TIMEOUT_S,
    workspace: Annotated[Path | None, typer.Option("--workspace", help="A folder to mount at /work.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Mount the workspace read-only.")] = False,
    memory: Annotated[
        int | None, typer.Option("--memory", parser=kernel_memory, metavar="SIZE", help="Memory limit, such as 2GiB.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a notebook in a box without network access. It can access only the workspace; other files it writes are lost.

    The run stops at the first cell that fails, with exit code 1, but --output and --in-place still write the outputs up
    to there. A cell with the tag raises-exception may fail. With --json, stdout contains one JSON object and no outputs
    of cells.
    """
    target = writable(file, output, in_place=in_place)
    data = read_input(str(file), "run")
    box = box_options(workspace, memory, read_only=read_only) | backend_options(ctx)
    try:
        # This is not imported at the top, because it needs an extra and takes longer to import than the rest of the
        # command line.
        from sandbox.kernels import notebook as notebooks  # noqa: PLC0415
    except ImportError as error:
        fail(
            f"run: {error.name} is not installed. "
            "Run pip install 'knackbox[kernels]' in the environment that Knackbox runs in.",
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
        say(f"{target} was not written: the kernel sent outputs that a notebook cannot contain.")
    raise typer.Exit(int(Exit.OK if ran.ending == "ok" and ran.writable else Exit.FAILED))


def writable(file: Path, output: Path | None, *, in_place: bool) -> Path | None:
    """Return the file for the executed notebook. End the command, before running it, if the file is not writable."""
    if output is not None and in_place:
        fail("run: use either --output or --in-place, not both.", Exit.USAGE)
    if not file.is_file():
        fail(f"run: {file} {'is a folder' if file.is_dir() else 'does not exist'}. Name a notebook.", Exit.USAGE)
    target = file.resolve() if in_place else output
    if target is not None and (target.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK)):
        fail(f"run: {target} cannot be written. Name a file in an existing, writable folder.", Exit.USAGE)
    return target


def box_options(workspace: Path | None, memory: int | None, *, read_only: bool) -> dict[str, Any]:
    """Return the options of the kernel's box. End the command if an option is invalid."""
    if workspace is None and read_only:
        fail("run: --read-only needs --workspace.", Exit.USAGE)
    if workspace is not None and not workspace.is_dir():
        fail(f"run: --workspace {workspace} is not a folder. Name one that exists.", Exit.USAGE)
    box: dict[str, Any] = {"memory_bytes": memory} if memory is not None else {}
    if workspace is not None:
        box |= {"workspace": str(workspace.resolve()), "read_only": read_only}
    return box


def backend_options(ctx: typer.Context) -> dict[str, Any]:
    """Return the options of the configured sandbox backend. End the command if the backend does not support kernels."""
    if options(ctx).unsafe_no_sandbox:
        fail("run: notebooks only run in a box. Remove --unsafe-no-sandbox.", Exit.USAGE)
    _, settings = settings_of(ctx)
    if settings.sandbox not in BACKENDS:
        fail(
            f"run: the sandbox {settings.sandbox!r} does not support kernels. "
            f"Use another one for this run: KNACKBOX_SANDBOX={BACKENDS[0]} knackbox run …",
            Exit.ENVIRONMENT,
        )
    if settings.sandbox != "docker":
        return {"backend": settings.sandbox}
    docker = settings.docker
    return {"backend": "docker", "image": docker.image, "runtime": docker.runtime, "engine_url": docker.url}


def write(target: Path, data: bytes) -> None:
    """Write the executed notebook atomically. End the command if that fails."""
    try:
        write_atomic(target, data)
    except OSError as error:
        fail(
            f"run: {target} cannot be written ({error.strerror or error}). The executed notebook is lost.",
            Exit.ENVIRONMENT,
        )


def remark(at: str, why: str, *, shown: bool) -> None:
    """Print why the run stopped and, if a limitation of the box may be the cause, a hint."""
    say(f"{at} ended the run: {why}")
    if why.startswith("FileNotFoundError") and not shown:
        say("a box cannot access your files. To mount a folder, use --workspace DIR.")
    if why.startswith("ModuleNotFoundError"):
        say("a box has only the packages of the environment that Knackbox runs in.")

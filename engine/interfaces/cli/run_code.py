"""`knackbox exec`: runs code in a fresh box. It needs no home, store or model."""

import asyncio
import errno
import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.app.home import Home
from engine.app.sandbox_choice import chosen_sandbox
from engine.app.sandboxes import open_sandbox, unsafe_sandbox
from engine.interfaces.cli.exec_job import code_of, destination, files_of, mount_of, stdin_of
from engine.interfaces.cli.live_output import LiveOutput
from engine.interfaces.cli.shared import Exit, Json, emit_json, fail, options, say, wants_json
from engine.interfaces.cli.sizes import size
from engine.interfaces.cli.spinner import working
from sandbox.contract import Destination, Job, Language, Limits, Outcome, UnresolvedRequirements

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def exec_(
    ctx: typer.Context,
    language: Annotated[Language, typer.Argument(help="The language of the code.")],
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE|-]", help="The file with the code; - reads it from stdin.")
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENT...]", help="Arguments to pass to the code.")
    ] = None,
    *,
    code: Annotated[str | None, typer.Option("--code", "-c", help="The code itself, instead of a file.")] = None,
    workspace: Annotated[Path | None, typer.Option("--workspace", help="A folder to mount at /work, writable.")] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Use a copy of the workspace, and list the changes.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Mount the workspace read-only.")] = False,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", help="A file to copy to the working folder, or to /tmp/job with --workspace. Repeatable."
        ),
    ] = None,
    packages: Annotated[
        list[str] | None, typer.Option("--with", metavar="PACKAGE", help="A Python package to install. Repeatable.")
    ] = None,
    allow: Annotated[
        list[Destination] | None,
        typer.Option(
            "--allow", parser=destination, metavar="HOST:PORT", help="Allow connections to this address. Repeatable."
        ),
    ] = None,
    memory: Annotated[
        int | None, typer.Option("--memory", parser=size, metavar="SIZE", help="Memory limit, such as 2GiB.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.05, metavar="SECONDS", help="Wall time limit.")
    ] = Limits().wall_s,
    as_json: Json = False,
) -> None:
    """Run code in a fresh box, without network access and with no files except the given ones.

    The box is deleted afterwards; only changes to a writable workspace are kept. If stdin is a pipe or a file, the code
    can read it. Output is shown as it arrives. The exit code is 1 if the code fails. With --json, stdout contains one
    object with end, exit_code, signal, stdout, stderr, dropped, value, error, changes and usage.
    """
    if code is not None and file is not None:  # with --code, the first positional argument belongs to the code
        arguments = [file, *(arguments or [])]
        file = None
    if packages and language is not Language.PYTHON:
        fail(f"exec: --with installs Python packages, which {language.value} code cannot use.", Exit.USAGE)
    job = Job(
        language=language,
        code=code_of(file, code),
        files=files_of(files or ()),
        stdin=stdin_of(file),
        argv=tuple(arguments or ()),
        workspace=mount_of(workspace, copy=copy, read_only=read_only),
        limits=limits_of(timeout, memory),
        egress=tuple(allow or ()),
        requirements=tuple(packages or ()),
    )
    json_wanted = wants_json(ctx, as_json)
    try:
        with working(f"running {language.value}") if json_wanted else nullcontext():  # otherwise live output is shown
            outcome = asyncio.run(run(ctx, job, live=not json_wanted))
    except UnresolvedRequirements as error:
        fail(f"exec: --with: {error}", Exit.USAGE)
    if json_wanted:
        emit_json(as_object(outcome))
    else:
        report(outcome)
    raise typer.Exit(int(Exit.OK if outcome.ok else Exit.FAILED))


def limits_of(timeout: float, memory: int | None) -> Limits:
    """Return the default limits with this timeout in seconds and this memory limit in bytes."""
    defaults = Limits()
    return Limits(
        wall_s=timeout,
        cpu_s=max(timeout, defaults.cpu_s),
        memory_bytes=defaults.memory_bytes if memory is None else memory,
    )


async def run(ctx: typer.Context, job: Job, *, live: bool) -> Outcome:
    """Run the job in the configured sandbox. With `live`, forward its output as it arrives.

    Raises:
        BrokenPipeError: The reader of the output has exited.
    """
    if options(ctx).unsafe_no_sandbox:
        sandbox = unsafe_sandbox()
    else:
        home = Home.locate(options(ctx).home, os.environ)
        sandbox = await open_sandbox(*chosen_sandbox(home, os.environ))
    output = LiveOutput()
    try:
        outcome = await sandbox.run(job, on_output=output if live else None)
    except asyncio.CancelledError:
        if output.reader_left:
            raise BrokenPipeError(errno.EPIPE, "the reader of the output has exited") from None
        raise
    finally:
        await sandbox.aclose()
    output.finish()
    return outcome


def report(outcome: Outcome) -> None:
    """Print how the run ended, its value and its changes to stderr."""
    if outcome.value is not None:
        say(f"value: {json.dumps(outcome.value, ensure_ascii=False, default=str)}")
    for change in outcome.changes:
        say(f"{change.kind.value} in the discarded copy: {json.dumps(change.path, ensure_ascii=False)}")
    if not outcome.ok:
        detail = f" (exit code {outcome.exit_code})" if outcome.exit_code is not None else ""
        detail = f" (signal {outcome.signal})" if outcome.signal is not None else detail
        say(f"the code ended with {outcome.end.value}{detail} after {outcome.usage.wall_s:.2f} s.")


def as_object(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as JSON fields. Output that is not UTF-8 has replacement characters."""
    found: dict[str, Any] = {
        "end": outcome.end.value,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "stdout": outcome.stdout.decode("utf-8", "replace"),
        "stderr": outcome.stderr.decode("utf-8", "replace"),
        "dropped": {"stdout": outcome.stdout_dropped, "stderr": outcome.stderr_dropped},
        "value": outcome.value,
        "error": None,
        "changes": [{"path": each.path, "kind": each.kind.value} for each in outcome.changes],
        "usage": {
            "wall_s": outcome.usage.wall_s,
            "cpu_s": outcome.usage.cpu_s,
            "peak_memory_bytes": outcome.usage.peak_memory_bytes,
            "output_bytes": outcome.usage.output_bytes,
            "limits_hit": list(outcome.usage.limits_hit),
        },
    }
    if outcome.error is not None:
        error = outcome.error
        found["error"] = {"type": error.type, "message": error.message, "traceback": error.traceback}
    return found

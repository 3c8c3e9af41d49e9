"""`knackbox exec`: run a file, or stdin, in one fresh box. Needs no home, store or model."""

import asyncio
import errno
import json
import sys
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from engine.app.sandboxes import open_sandbox, told_to_sandboxes, unsafe_sandbox
from engine.faces.cli.settings import settings_of
from engine.faces.cli.shared import Exit, Json, emit_json, fail, options, read_input, say, wants_json
from engine.faces.cli.spinner import working
from sandbox.contract import Job, Language, Limits, Outcome, Stream

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def exec_(
    ctx: typer.Context,
    language: Annotated[Language, typer.Argument(help="What the code is written in.")],
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The code; - reads it from stdin.")],
    as_json: Json = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.05, metavar="SECONDS", help="Wall time the code may take.")
    ] = Limits().wall_s,
) -> None:
    """Run code in a fresh box: no network, no files but its own, nothing kept.

    Ends with 1 when the code failed. With --json the last line of stdout is one object with end, exit_code, signal,
    stdout, stderr, dropped, value, error and usage.
    """
    try:
        code = read_input(file, "exec").decode()
    except UnicodeDecodeError as error:
        fail(f"exec: {file} is not UTF-8 text ({error.reason} at byte {error.start}). Convert it.", Exit.USAGE)
    limits = Limits(wall_s=timeout, cpu_s=max(timeout, Limits().cpu_s))
    json_wanted = wants_json(ctx, as_json)
    job = Job(language=language, code=code, limits=limits)
    with working(f"running {language.value}") if json_wanted else nullcontext():  # live output is sign of life enough
        outcome = asyncio.run(run(ctx, job, live=not json_wanted))
    if json_wanted:
        emit_json(as_object(outcome))
    else:
        remark(outcome)
    raise typer.Exit(int(Exit.OK if outcome.ok else Exit.FAILED))


async def run(ctx: typer.Context, job: Job, *, live: bool) -> Outcome:
    """Run the job in the configured sandbox; `live` passes its output on as it comes."""
    if options(ctx).unsafe_no_sandbox:
        sandbox = unsafe_sandbox()
    else:
        home, settings = settings_of(ctx)
        sandbox = await open_sandbox(settings.sandbox, told_to_sandboxes(home, settings))
    output = LiveOutput()
    try:
        return await sandbox.run(job, on_output=output if live else None)
    except asyncio.CancelledError:
        if output.reader_left:
            raise BrokenPipeError(errno.EPIPE, "nobody reads the output any more") from None
        raise
    finally:
        await sandbox.aclose()


class LiveOutput:
    """Passes the code's output on as it comes; ends the run when whoever read it went away, as `| head` does."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self.reader_left = False

    def __call__(self, stream: Stream, data: bytes) -> None:
        target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
        try:
            target.write(data)
            target.flush()
        except BrokenPipeError:
            if not self.reader_left and self._task is not None:
                self._task.cancel()
            self.reader_left = True


def remark(outcome: Outcome) -> None:
    """What the code's own output does not say, on stderr."""
    if outcome.value is not None:
        say(f"value: {json.dumps(outcome.value, ensure_ascii=False, default=str)}")
    if not outcome.ok:
        detail = f" (exit code {outcome.exit_code})" if outcome.exit_code is not None else ""
        detail = f" (signal {outcome.signal})" if outcome.signal is not None else detail
        say(f"the code ended with {outcome.end.value}{detail} after {outcome.usage.wall_s:.2f} s.")


def as_object(outcome: Outcome) -> dict[str, Any]:
    """The outcome as JSON. Output that is not UTF-8 is shown with replacement characters."""
    found: dict[str, Any] = {
        "end": outcome.end.value,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "stdout": outcome.stdout.decode("utf-8", "replace"),
        "stderr": outcome.stderr.decode("utf-8", "replace"),
        "dropped": {"stdout": outcome.stdout_dropped, "stderr": outcome.stderr_dropped},
        "value": outcome.value,
        "error": None,
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

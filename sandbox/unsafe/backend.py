"""Runs jobs without a sandbox, as plain child processes with the user's own rights.

Only for `--unsafe-no-sandbox`, and never chosen by default. It limits time, memory and output, but isolates
nothing; it logs a warning on every run.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from sandbox import worker
from sandbox.capture import Capture
from sandbox.contract import (
    CodeError,
    End,
    Job,
    OnOutput,
    Outcome,
    Protection,
    Protections,
    SandboxError,
    SandboxSettings,
    State,
    Stream,
    Unsupported,
    Usage,
)
from sandbox.nodes import MAX_NODES, too_many_nodes
from sandbox.wire import request
from sandbox.wire.end_reasons import with_end_reason
from sandbox.wire.programs import Programs
from sandbox.wire.report import parse_report

WARNING = "NO SANDBOX: this code runs with your own rights (--unsafe-no-sandbox)."
_LOG = logging.getLogger("knackbox.sandbox")
_READ = 1 << 16
_MOST_ANSWER = worker.MAX_VALUE_BYTES + (1 << 20)  # a value, plus room for an error and the other fields


class UnsafeSandbox:
    """Runs jobs without isolation, and warns every time."""

    name = "unsafe"

    @classmethod
    def configured(cls, _settings: SandboxSettings) -> Self:
        """Create a sandbox. The settings do not apply, because no boxes are kept and connections are not restricted."""
        return cls()

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job, as any backend does, but without any protection.

        Raises:
            SandboxError: The job is not valid, or the process cannot be started.
        """
        _must_be_possible(job)
        _LOG.warning(WARNING)
        with tempfile.TemporaryDirectory(prefix="knackbox-unsafe-") as folder:
            header, body = _request(job, Path(folder))
            return with_end_reason(job, await _run(job, header, body, on_output))

    async def report(self) -> Protections:
        absent = Protection("isolation", State.ABSENT, required=False, detail=WARNING)
        return Protections(self.name, (absent,))

    async def aclose(self) -> None:
        """Do nothing: no resources are kept."""


def _must_be_possible(job: Job) -> None:
    """Refuse jobs with destinations, which cannot be enforced, and jobs with requirements, which would be missing.

    Raises:
        Unsupported: The job has destinations or requirements.
    """
    remedy = "Run the job in the namespace sandbox, without --unsafe-no-sandbox."
    if job.egress:
        raise Unsupported("Without a sandbox, the destinations of a job cannot be enforced.", remedy=remedy)
    if job.requirements:
        raise Unsupported("Without a sandbox, the packages that a job requires are not installed.", remedy=remedy)


def _request(job: Job, folder: Path) -> tuple[dict[str, Any], bytes]:
    programs = Programs(
        bash=shutil.which("bash"), node=shutil.which("node"), path=tuple(os.defpath.split(":")), packages=()
    )
    header, body = request.build(job, programs)
    work = job.workspace.source if job.workspace else folder
    moved = {"stay": False, "folder": str(folder), "cwd": str(work), "env": {**os.environ, **job.env}}
    inside = header["folder"]
    moved["command"] = [part.replace(inside, str(folder), 1) for part in header["command"]]
    return {**header, **moved}, body


async def _run(job: Job, header: dict[str, Any], body: bytes, on_output: OnOutput | None) -> Outcome:
    job_read, job_write = os.pipe()
    result_read, result_write = os.pipe()
    started = time.monotonic()
    command = [sys.executable, worker.__file__, str(job_read), str(result_write)]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=(job_read, result_write),
        start_new_session=True,
    )
    os.close(job_read)
    os.close(result_write)
    captures: dict[Stream, Capture] = {name: Capture(job.limits.capture_bytes) for name in ("stdout", "stderr")}
    reason = ""
    answer_task = asyncio.create_task(asyncio.to_thread(_read_all, result_read))
    try:
        async with asyncio.timeout(job.limits.wall_s):
            await asyncio.gather(
                asyncio.to_thread(_write_frame, job_write, header, body),
                _feed(process, job.stdin),
                _pump(process.stdout, "stdout", captures, job, on_output),
                _pump(process.stderr, "stderr", captures, job, on_output),
            )
            await process.wait()
    except TimeoutError:
        reason = End.TIMEOUT
    except OverflowError:
        reason = End.OUTPUT
    finally:
        ending = asyncio.ensure_future(_end(process, answer_task))
        cancelled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:  # the process must be ended even if the task is cancelled again
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError
    wall_s, code = time.monotonic() - started, process.returncode or 0
    said = await asyncio.to_thread(_report_in, answer_task.result()) if code >= 0 else {}
    return _outcome(said, code, reason, captures, wall_s)


async def _end(process: asyncio.subprocess.Process, answer: asyncio.Task[bytes]) -> None:
    """Kill the process and its group; wait until it is gone and every pipe to it is closed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # Nobody reads the pipes any more, and in Python 3.11 `wait` returns only once every pipe has reached its end.
    transport: asyncio.SubprocessTransport = process._transport  # type: ignore[attr-defined]  # noqa: SLF001
    for number in range(3):
        pipe = transport.get_pipe_transport(number)
        if pipe is not None:
            pipe.close()
    await process.wait()
    await asyncio.wait({answer})


def _write_frame(descriptor: int, header: dict[str, Any], body: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as out:
        out.write(worker.pack(header, body))


def _read_all(descriptor: int) -> bytes:
    """Read a pipe to its end, so that the writer can exit, but keep no more than the maximum size of an answer."""
    with os.fdopen(descriptor, "rb") as source:
        answer = source.read(_MOST_ANSWER)
        while source.read(_READ):
            continue
        return answer


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    if process.stdin is None:
        raise SandboxError("The process has no standard input.")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


async def _pump(
    source: asyncio.StreamReader | None,
    stream: Stream,
    captures: dict[Stream, Capture],
    job: Job,
    on_output: OnOutput | None,
) -> None:
    while source is not None and (data := await source.read(_READ)):
        captures[stream].feed(data)
        if on_output is not None:
            on_output(stream, data)
        if sum(capture.seen for capture in captures.values()) > job.limits.output_bytes:
            raise OverflowError


def _report_in(answer: bytes) -> worker.Message:
    """Return the worker's report, or {} if there is none.

    Raises:
        SandboxError: The report has more values than a worker would send.
    """
    if too_many_nodes(answer, 2 * MAX_NODES):  # twice the worker's own limit leaves room for what surrounds the value
        raise SandboxError("The job's answer has too many values to be read.", may_have_started=True)
    return parse_report(answer) or {}


def _outcome(said: worker.Message, code: int, reason: str, captures: dict[Stream, Capture], wall_s: float) -> Outcome:
    end = End(reason or said.get("end") or (End.OK if code == 0 else End.KILLED if code < 0 else End.ERROR))
    error = said.get("error")
    out, err = captures["stdout"], captures["stderr"]
    return Outcome(
        end=end,
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        stdout=out.value(),
        stderr=err.value(),
        stdout_dropped=out.dropped,
        stderr_dropped=err.dropped,
        value=said.get("value"),
        error=CodeError(error["type"], error["message"], error["traceback"]) if error else None,
        usage=Usage(wall_s=wall_s, output_bytes=out.seen + err.seen),
    )

"""A sandbox that runs each job as the first cell of a fresh kernel, so that the attempts for jobs also test kernels.

The limits of a job are increased by what the kernel itself needs, and exceptions are interpreted as in a worker. Jobs
in other languages are refused: a cell can only start them as programs in its own box.
"""

import asyncio
import contextlib
import errno
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient

from sandbox.contract import CodeError, End, Job, Language, OnOutput, Outcome, Protections
from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.kernel_client import KernelClient
from sandbox.kernels.spec import Cell, CellLimits, KernelSpec
from sandbox.namespace.backend import NamespaceSandbox
from sandbox.self_check.attempts.attempt import Attempt
from sandbox.self_check.attempts.memory import HELD_BYTES

# An idle kernel has eight threads, with stacks of 64 MiB of address space that the rlimit counts, and its sockets.
OWN_MEMORY, OWN_PROCESSES, OWN_FILES = 96 << 20, 12, 64
_GRACE_S = 1.0
_PATIENCE_S = 60.0
_FIRST = asyncio.FIRST_COMPLETED
_ASK_AGAIN_S = 0.1
_ENDS = {
    errno.ENOSPC: End.DISK,
    errno.EDQUOT: End.DISK,
    errno.EMFILE: End.FILES,
    errno.EFBIG: End.DISK,  # a file of a kernel may be as large as its disk
    errno.ENOMEM: End.MEMORY,
}
_NUMBER = re.compile(r"\[Errno (\d+)\]")
_NO_MEMORY_TO_FORMAT = "Unexpected exception formatting exception"  # printed by IPython

_SOCKETS = "a kernel itself creates sockets and events; test_confined.py checks to which network they belong"
_STREAMS = "the output of a cell is a message, not bytes of a stream"
_CELL = "a cell ends with its last line; test_attacks.py checks that processes that it leaves are limited, too"
# Attempts that prove nothing about a kernel, and why.
SENSELESS = {
    "use an inherited socket": _SOCKETS,
    "use an inherited descriptor other than the standard streams": _SOCKETS,
    "use an inherited Landlock ruleset, pidfd or namespace": _SOCKETS,
    "print what looks like an answer": _STREAMS,
    "use CPU time in many threads of many processes": _CELL,
    "leave a thread running forever": _CELL,
    "never return from an exit handler": _CELL,
}


def senseless(attempt: Attempt) -> str:
    """Return why an attempt is not made from a cell; "" if it is made."""
    if attempt.language is not Language.PYTHON:
        return "a cell can only start other languages as programs, in the same box as a job's"
    if attempt.ends == (End.FILE_SIZE,):
        return "a file of a kernel may be as large as its disk"
    return SENSELESS.get(attempt.attempt, "")


def from_a_cell(attempt: Attempt) -> Attempt:
    """Return the attempt with the additional ends that a kernel may have, and more time for them."""
    if not {End.TIMEOUT, End.OK, End.ERROR} & set(attempt.ends) and not attempt.beside:
        # IPython may take long to format a MemoryError on a busy machine; another limit must end the cell in any case.
        attempt = replace(attempt, limits=replace(attempt.limits, wall_s=_PATIENCE_S))
    if End.MEMORY in attempt.ends:  # ZeroMQ aborts when it cannot allocate memory
        return replace(attempt, ends=(*attempt.ends, End.ERROR))
    if attempt.attempt == "leave a changed builtin":  # ipykernel needs the builtin in order to answer
        return replace(attempt, ends=(*attempt.ends, End.TIMEOUT))
    return attempt


class CellsAsJobs:
    """Runs jobs as cells. Always close it; the caller owns the sandbox and the context.

    While one kernel is being tested, the next one with the same spec starts.
    """

    name = "namespace"

    def __init__(self, box: NamespaceSandbox, context: "zmq.asyncio.Context") -> None:
        self._box = box
        self._context = context
        self._ahead: dict[KernelSpec, asyncio.Task[tuple[BoxedKernel, KernelClient]]] = {}

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        given = job.limits
        spec = KernelSpec(
            workspace=job.workspace,
            memory_bytes=given.memory_bytes + OWN_MEMORY,
            processes=given.processes + OWN_PROCESSES,
            threads=given.threads + OWN_PROCESSES,
            open_files=given.open_files + OWN_FILES,
            cpu_s=given.cpu_s,
            disk_bytes=given.disk_bytes,
        )
        kernel, talk = await self._take(spec)
        try:
            async with self._forwarding(kernel, on_output if _needs_output(job) else None):
                cell = await talk.run(_code(job), CellLimits(given.wall_s, _GRACE_S, given.output_bytes))
            return _told(cell, kernel)
        finally:
            await _end(kernel, talk)

    async def aclose(self) -> None:
        ahead, self._ahead = self._ahead, {}
        for found in await asyncio.gather(*ahead.values(), return_exceptions=True):
            if not isinstance(found, BaseException):
                await _end(*found)

    async def _take(self, spec: KernelSpec) -> tuple[BoxedKernel, KernelClient]:
        kernel, talk = await (self._ahead.pop(spec, None) or self._start(spec))
        self._ahead[spec] = asyncio.ensure_future(self._start(spec))
        return kernel, talk

    async def _start(self, spec: KernelSpec) -> tuple[BoxedKernel, KernelClient]:
        kernel = await BoxedKernel.start(self._box, spec)
        try:
            return kernel, await KernelClient.with_ready(kernel, self._context)
        except BaseException:
            kernel.forget()
            await kernel.kill()
            raise

    async def report(self) -> Protections:
        return await self._box.report()

    @asynccontextmanager
    async def _forwarding(self, kernel: BoxedKernel, on_output: OnOutput | None) -> AsyncIterator[None]:
        """Forward printed output as it arrives, with a second client."""
        if on_output is None:
            yield
            return
        client = AsyncKernelClient(context=self._context)
        client.load_connection_info(kernel.connection)
        client.start_channels(stdin=False, hb=False, control=False)
        heard = asyncio.Event()
        listening = asyncio.ensure_future(_hand_on(client, on_output, heard))
        try:
            await asyncio.wait((asyncio.ensure_future(_subscribed(client, heard)), kernel.ended), return_when=_FIRST)
            yield
        finally:
            listening.cancel()
            await asyncio.wait((listening,))
            client.stop_channels()


async def _end(kernel: BoxedKernel, talk: KernelClient) -> None:
    talk.close()
    kernel.forget()
    await kernel.kill()


async def _subscribed(client: AsyncKernelClient, heard: asyncio.Event) -> None:
    """Send requests until the client receives published messages."""
    while not heard.is_set():
        client.kernel_info()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ASK_AGAIN_S):
                await heard.wait()


async def _hand_on(client: AsyncKernelClient, on_output: OnOutput, heard: asyncio.Event) -> None:
    while True:
        message = await client.get_iopub_msg()
        heard.set()
        if message["msg_type"] == "stream":
            on_output("stdout", message["content"]["text"].encode())


def _needs_output(job: Job) -> bool:
    """Return whether the test waits for the output of the job: an attempt that holds a resource, or the neighbour."""
    return "hold()" in job.code or bool(job.argv)


def _code(job: Job) -> str:
    given = f"import os, sys; os.environ.update({dict(job.env)!r}); sys.argv[1:] = {list(job.argv)!r}\n"
    # The threshold for "more than a job may hold" is increased by what the kernel itself holds.
    return given + job.code.replace(f"LIMIT = {HELD_BYTES}", f"LIMIT = {HELD_BYTES + OWN_MEMORY}")


def _told(cell: Cell, kernel: BoxedKernel) -> Outcome:
    """Return the outcome of a cell, including the end of its box if the box ended by itself."""
    streams = {name: "".join(each.text for each in cell.outputs if each.name == name) for name in ("stdout", "stderr")}
    last = b""
    if not kernel.alive and not kernel.ended.cancelled() and kernel.ended.exception() is None:
        ended = kernel.ended.result()
        last = ended.stdout + ended.stderr
    return Outcome(
        end=_end_of(cell.end, cell.error, "".join(streams.values())),
        stdout=streams["stdout"].encode(),
        stderr=streams["stderr"].encode() + last,
        value=[dict(each.data) for each in cell.outputs if each.data],
        error=cell.error,
    )


def _end_of(end: End, error: CodeError | None, printed: str = "") -> End:
    # IPython could not allocate memory, because the objects of the cell still use it. Either it could not create a reply,
    # or it sent an incomplete message, after which the kernel is killed, because its messages are no longer reliable.
    if end in (End.TIMEOUT, End.KILLED) and _NO_MEMORY_TO_FORMAT in printed:
        return End.MEMORY
    if end is not End.ERROR or error is None:
        return end
    if error.type == "MemoryError":
        return End.MEMORY
    if error.type == "RuntimeError" and "start new thread" in error.message:
        return End.PROCESSES
    if error.type == "BlockingIOError" and "fork" in error.traceback:
        return End.PROCESSES
    number = _NUMBER.search(error.message)
    return _ENDS.get(int(number[1]), end) if number else end

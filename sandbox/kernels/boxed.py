"""`BoxedKernel`: one kernel in one box. Starts it, locates its sockets, signals it and ends it.

Messages to the kernel do not pass through here: they go over its sockets.
"""

import asyncio
import fcntl
import os
import secrets
import signal
from typing import Protocol, Self

from jupyter_client.connect import KernelConnectionInfo

from sandbox.contract import Job, Outcome
from sandbox.kernels import program
from sandbox.kernels.spec import KernelDied, KernelSpec
from sandbox.service_handle import ServiceHandle
from sandbox.wire.paths import INLET_NAME

_KEY_BYTES = 32


class ServerSandbox(Protocol):
    """A sandbox that can run a job which is a server."""

    async def run_service(self, job: Job, handle: ServiceHandle) -> Outcome: ...


class SocketLocation:
    """Where clients find a kernel's sockets. It stays the same when the kernel is replaced by another one.

    It is a folder that only exists as a descriptor of this process, so there is nothing to remove, and only processes
    of this user can use it.
    """

    def __init__(self) -> None:
        self._folder = -1

    @property
    def path(self) -> str:
        """The path, as Jupyter's `ip` of the transport `ipc`."""
        return f"/proc/{os.getpid()}/fd/{self._folder}/{INLET_NAME}"

    def show(self, folder: int) -> None:
        """Point to the sockets in this folder from now on. The caller keeps its descriptor."""
        if self._folder < 0:
            self._folder = fcntl.fcntl(folder, fcntl.F_DUPFD_CLOEXEC, 0)
        else:
            os.dup2(folder, self._folder, inheritable=False)

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


class BoxedKernel:
    """A kernel in a box. Belongs to the event loop it was started in."""

    def __init__(self, handle: ServiceHandle, ended: "asyncio.Task[Outcome]", place: SocketLocation, key: str) -> None:
        self._handle = handle
        self._place = place
        self.ended = ended
        """Done once the box is gone: its outcome, or the SandboxError that kept it from running."""
        self.key = key

    @classmethod
    async def start(
        cls, sandbox: ServerSandbox, spec: KernelSpec, *, place: SocketLocation | None = None, key: str = ""
    ) -> Self:
        """Start a kernel in a new box. Clients may connect at once, and get answers when it is up. Raises SandboxError.

        `place` and `key` are those of a kernel that this one replaces, whose clients then need not reconnect.
        """
        key = key or secrets.token_hex(_KEY_BYTES)
        handle = ServiceHandle(tuple(program.PORTS.values()))
        ended = asyncio.ensure_future(sandbox.run_service(program.job(spec, key), handle))
        kernel = cls(handle, ended, place or SocketLocation(), key)
        try:
            await asyncio.wait((ended, handle.folder), return_when=asyncio.FIRST_COMPLETED)
            if handle.folder.done():
                kernel._place.show(handle.folder.result())
                return kernel
        except BaseException:
            await kernel.kill()
            raise
        why = kernel.why
        await kernel.kill()
        raise KernelDied(why)

    @property
    def connection(self) -> KernelConnectionInfo:
        """Return Jupyter's connection information."""
        return program.connection(self._place.path, self.key)

    @property
    def alive(self) -> bool:
        return not self.ended.done()

    @property
    def why(self) -> str:
        """Why it ended, in a few words; "" while it is alive."""
        if not self.ended.done():
            return ""
        if self.ended.cancelled():
            return "it was stopped"
        problem = self.ended.exception()
        if problem is not None:
            return str(problem)
        outcome = self.ended.result()
        last = outcome.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"{outcome.end.value}{f', {last[:200]}' if last else ''}"

    def interrupt(self) -> None:
        """Send SIGINT to the kernel and its children: a running cell gets KeyboardInterrupt, an idle kernel nothing."""
        self.signal(signal.SIGINT)

    def signal(self, number: int) -> None:
        self._handle.signal(number)

    async def signalled(self) -> None:
        """Wait until every signal has reached the kernel: later requests are not hit by any of them."""
        await self._handle.signalled()

    async def gone(self) -> None:
        """Wait until it has ended, for any reason."""
        await asyncio.wait((self.ended,))

    async def kill(self) -> None:
        """Kill everything in the box; returns once the box is gone."""
        self.ended.cancel()
        self._handle.close()
        await asyncio.wait((self.ended,))

    def forget(self) -> None:
        """Release its place; clients cannot connect again."""
        self._handle.close()
        self._place.close()


def code_of(kernel: BoxedKernel) -> int | None:
    """Return the exit code of the kernel's process.

    None while it is alive, minus the signal that killed it, and 1 where there is neither a code nor a signal.
    """
    if kernel.alive:
        return None
    if kernel.ended.cancelled() or kernel.ended.exception() is not None:
        return -signal.SIGKILL
    outcome = kernel.ended.result()
    if outcome.signal is not None:
        return -outcome.signal
    return outcome.exit_code if outcome.exit_code is not None else 1

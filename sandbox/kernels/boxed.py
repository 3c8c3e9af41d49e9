"""One kernel in one box: started, found, signalled, ended. What is said to it goes past this file, over its sockets."""

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
from sandbox.line import Line
from sandbox.wire.paths import INLET_NAME

_KEY_BYTES = 32


class Keeper(Protocol):
    """A sandbox that can run a job which is a server."""

    async def keep(self, job: Job, line: Line) -> Outcome: ...


class Place:
    """Where clients find a kernel's sockets. It stays the same when the kernel behind it is another one.

    A folder that only exists as a descriptor of this process: nothing to remove, and for this user's processes only.
    """

    def __init__(self) -> None:
        self._folder = -1

    @property
    def path(self) -> str:
        """As Jupyter's `ip` of the transport `ipc`."""
        return f"/proc/{os.getpid()}/fd/{self._folder}/{INLET_NAME}"

    def show(self, folder: int) -> None:
        """From now on the sockets are those in this folder, a descriptor that stays the caller's."""
        if self._folder < 0:
            self._folder = fcntl.fcntl(folder, fcntl.F_DUPFD_CLOEXEC, 0)
        else:
            os.dup2(folder, self._folder, inheritable=False)

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


class BoxedKernel:
    """Belongs to the event loop it was started in."""

    def __init__(self, line: Line, ended: "asyncio.Task[Outcome]", place: Place, key: str) -> None:
        self._line = line
        self._place = place
        self.ended = ended
        """Done once the box is gone: its outcome, or the SandboxError it could not be run for."""
        self.key = key

    @classmethod
    async def start(cls, keeper: Keeper, spec: KernelSpec, *, place: Place | None = None, key: str = "") -> Self:
        """Put a kernel into a new box; clients may connect at once, and are heard when it is up. Raises SandboxError.

        place, key: those of a kernel that this one replaces, whose clients then need not be told.
        """
        key = key or secrets.token_hex(_KEY_BYTES)
        line = Line(tuple(program.PORTS.values()))
        ended = asyncio.ensure_future(keeper.keep(program.job(spec, key), line))
        kernel = cls(line, ended, place or Place(), key)
        try:
            await asyncio.wait((ended, line.folder), return_when=asyncio.FIRST_COMPLETED)
            if line.folder.done():
                kernel._place.show(line.folder.result())
                return kernel
        except BaseException:
            await kernel.kill()
            raise
        why = kernel.why
        await kernel.kill()
        raise KernelDied(why)

    @property
    def connection(self) -> KernelConnectionInfo:
        """Jupyter's connection information."""
        return program.connection(self._place.path, self.key)

    @property
    def alive(self) -> bool:
        return not self.ended.done()

    @property
    def why(self) -> str:
        """Why it ended, in a few words; "" while it lives."""
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
        """SIGINT to the kernel and its children: a running cell gets KeyboardInterrupt, an idle kernel nothing."""
        self.signal(signal.SIGINT)

    def signal(self, number: int) -> None:
        self._line.signal(number)

    async def signalled(self) -> None:
        """Wait until every signal has reached the kernel: what it is asked after this is not hit by one of them."""
        await self._line.signalled()

    async def gone(self) -> None:
        """Wait for its end, of whatever it comes."""
        await asyncio.wait((self.ended,))

    async def kill(self) -> None:
        """End the box and everything in it; returns when it is gone."""
        self.ended.cancel()
        self._line.close()
        await asyncio.wait((self.ended,))

    def forget(self) -> None:
        """Give up its place; clients cannot connect again."""
        self._line.close()
        self._place.close()


def code_of(kernel: BoxedKernel) -> int | None:
    """As a process's exit code: None while it lives, minus the signal it died of, 1 where there is neither."""
    if kernel.alive:
        return None
    if kernel.ended.cancelled() or kernel.ended.exception() is not None:
        return -signal.SIGKILL
    outcome = kernel.ended.result()
    if outcome.signal is not None:
        return -outcome.signal
    return outcome.exit_code if outcome.exit_code is not None else 1

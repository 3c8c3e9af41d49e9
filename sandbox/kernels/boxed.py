"""`BoxedKernel`: one kernel in one box. Starts it, locates its sockets, signals it and ends it.

Messages to the kernel do not pass through here: they go over its sockets.
"""

import asyncio
import fcntl
import json
import os
import secrets
import signal
from pathlib import Path
from typing import Protocol, Self

from jupyter_client.connect import KernelConnectionInfo

from sandbox.bridge.bridge import Bridge
from sandbox.contract import Job, Limits, Outcome
from sandbox.kernels.spec import KernelDied, KernelSpec
from sandbox.service_handle import ServiceHandle
from sandbox.wire.paths import INLET_NAME

# In the box's own network namespace, above the ports that Linux assigns automatically (up to 60999).
PORTS = {"shell": 61001, "iopub": 61002, "stdin": 61003, "control": 61004, "hb": 61005}
# What ipykernel would import after the fork, found by comparing `sys.modules` of a template and of a ready kernel.
PRELOAD = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "logging.handlers",
    "pygments.formatters.terminal256",  # this and the next three are imported for the first traceback
    "pygments.plugin",
    "pygments.styles",
    "stack_data",
    "tornado.platform.asyncio",
    "tornado.queues",
)
_PROGRAM = Path(__file__).with_name("kernel_program.py").read_text("utf-8")
_FILE_SIZE_BYTES = 64 << 20
_KEY_BYTES = 32


class ServerSandbox(Protocol):
    """A sandbox that can run a server as a job."""

    async def run_service(self, job: Job, handle: ServiceHandle) -> Outcome: ...


class SocketLocation:
    """The place where clients find a kernel's sockets. It stays the same when another kernel replaces the kernel.

    The place is a folder that exists only as a descriptor of this process, so there is nothing to remove, and only
    processes of this user can use it.
    """

    def __init__(self) -> None:
        self._folder = -1

    @property
    def path(self) -> str:
        """What the paths of the sockets begin with. Jupyter calls this the `ip` of the transport `ipc`."""
        return f"/proc/{os.getpid()}/fd/{self._folder}/{INLET_NAME}"

    def show(self, folder: int) -> None:
        """Point to the sockets in `folder`, a descriptor that the caller still owns."""
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
        self.bridge = handle.bridge or Bridge()
        """Answers the cells of the kernel while `Bridge.serving`, if the sandbox has bridges."""
        self.ended = ended
        """The task that runs the box. Its result is the outcome; it raises SandboxError if the box could not run."""
        self.key = key
        self._sent = self._confirmed = 0  # signals

    @classmethod
    async def start(
        cls, sandbox: ServerSandbox, spec: KernelSpec, *, place: SocketLocation | None = None, key: str = ""
    ) -> Self:
        """Start a kernel in a new box. Clients may connect at once, and receive answers once the kernel is running.

        If the kernel replaces another one, pass the `place` and `key` of the other kernel, so that its clients need not
        reconnect.

        Raises:
            SandboxError: The box could not be started.
        """
        key = key or secrets.token_hex(_KEY_BYTES)
        handle = ServiceHandle(tuple(PORTS.values()), Bridge())
        ended = asyncio.ensure_future(sandbox.run_service(job_of(spec, key), handle))
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
        return connection_at(self._place.path, self.key)

    @property
    def alive(self) -> bool:
        return not self.ended.done()

    @property
    def why(self) -> str:
        """The reason why the kernel ended, in a few words; "" while the kernel is alive."""
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
        """Send SIGINT to the kernel and its children. The kernel raises KeyboardInterrupt only while a cell runs."""
        self.signal(signal.SIGINT)

    def signal(self, number: int) -> None:
        """Send a signal to the kernel and its children."""
        self._sent += 1
        self._handle.signal(number)

    async def signalled(self) -> None:
        """Wait until every signal has reached the kernel, so that none of them can affect a later request."""
        sent = self._sent
        if sent > self._confirmed:
            await self._handle.signalled()
            self._confirmed = sent

    async def gone(self) -> None:
        """Wait until the kernel has ended, for any reason."""
        await asyncio.wait((self.ended,))

    async def kill(self) -> None:
        """Kill everything in the box, and return once the box is gone."""
        self.ended.cancel()
        self._handle.close()
        await asyncio.wait((self.ended,))

    def forget(self) -> None:
        """Release the location of the kernel's sockets, so that clients cannot connect again."""
        self._handle.close()
        self._place.close()


def code_of(kernel: BoxedKernel) -> int | None:
    """Return the exit code of the kernel's process.

    Returns:
        The exit code, or the negative number of the signal that killed the process; 1 if neither is known; None while
        the kernel is alive.
    """
    if kernel.alive:
        return None
    if kernel.ended.cancelled() or kernel.ended.exception() is not None:
        return -signal.SIGKILL
    outcome = kernel.ended.result()
    if outcome.signal is not None:
        return -outcome.signal
    return outcome.exit_code if outcome.exit_code is not None else 1


def job_of(spec: KernelSpec, key: str) -> Job:
    """Return the job that runs a kernel with this spec. `key` signs the kernel's messages."""
    limits = Limits(
        wall_s=spec.lifetime_s,
        cpu_s=spec.cpu_s,
        memory_bytes=spec.memory_bytes,
        processes=spec.processes,
        threads=spec.threads,
        open_files=spec.open_files,
        file_size_bytes=min(_FILE_SIZE_BYTES, spec.disk_bytes),
        disk_bytes=spec.disk_bytes,
    )
    return Job(
        code=_PROGRAM,
        argv=(json.dumps({"ports": PORTS, "key": key}),),
        preload=(*PRELOAD, *spec.preload),
        workspace=spec.workspace,
        limits=limits,
    )


def connection_at(path: str, key: str) -> KernelConnectionInfo:
    """Return Jupyter's connection information.

    `path` is the path of each socket without the dash and the number at its end.
    """
    return {
        "transport": "ipc",
        "ip": path,
        "shell_port": 1,  # in the order of `PORTS`
        "iopub_port": 2,
        "stdin_port": 3,
        "control_port": 4,
        "hb_port": 5,
        "key": key.encode(),  # type: ignore[typeddict-item]  # Jupyter compares it with bytes
        "signature_scheme": "hmac-sha256",
    }

"""`ForkServer`: the engine's side of one template. Starts it, keeps boxes ready, hands them out and kills them."""

import asyncio
import json
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sandbox.contract import SandboxError
from sandbox.forkserver import open_files, orders
from sandbox.forkserver.launch import Program, launch
from sandbox.forkserver.template_processes import ASK_DOCTOR, TemplateProcesses, could_not_start

_START_WAIT_S = 60.0
_ANSWER_WAIT_S, _LOOK_S = 10.0, 0.5
_STOPPED_LOOKS = 2  # a process found stopped this many times in a row is given up
_PULSE_AGAIN_S = 1.0  # seconds between two requests for a pulse (`sandbox.namespace.pulse`), which lasts twice as long
_MAX_PATH = 4096  # PATH_MAX
_DESCRIPTORS_PER_BOX = 3


T = TypeVar("T")


class TemplateLost(SandboxError):
    """The template ended or did not respond before a box was taken from it, so the caller may use another template."""


@dataclass(slots=True)
class ForkedBox:
    """A forked, isolated box that waits for its job."""

    id: int
    channel: socket.socket
    stdout: int
    stderr: int
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self) -> None:
        self.channel.close()
        os.close(self.stdout)
        os.close(self.stderr)


class ForkServer:
    """One template. Keeps `warm` boxes ready, and forks more on demand."""

    def __init__(self, program: Program, config: Mapping[str, Any], warm: int) -> None:
        """Create the object. `start` starts the processes of the template.

        Args:
            program: The program to start as the supervisor.
            config: The config of the template, in the form that the supervisor reads.
            warm: The number of boxes to keep ready.
        """
        self._config = config
        self._program = program
        self._warm = warm
        self._processes: TemplateProcesses | None = None
        self._template: socket.socket | None = None
        self._supervisor: socket.socket | None = None
        self._idle: deque[ForkedBox] = deque()
        self._waiting: deque[asyncio.Future[ForkedBox]] = deque()
        self._forking = 0
        self._boxes: dict[int, ForkedBox] = {}
        self._mounts: dict[int, asyncio.Future[int]] = {}
        self._outbox: deque[tuple[socket.socket, bytes]] = deque()
        self._ready: asyncio.Future[list[str]] | None = None
        self._next_id = 0
        self._pulse_until = 0.0
        self.dead: str = ""  # why the template has ended; "" while it runs
        self.hung = False  # whether the template no longer responds; jobs that run in its boxes may still end
        self.jobs = 0  # jobs that use the template at the moment, counted by its owner
        self.forks = 0
        self.started = 0.0  # on the event loop's clock

    async def start(self) -> list[str]:
        """Start the processes; return the modules that could not be preloaded.

        Raises:
            SandboxError: The template cannot be started.
        """
        loop = asyncio.get_running_loop()
        self.started = loop.time()
        try:
            process, self._supervisor, self._template = launch(self._program, self._config)
        except OSError as problem:
            raise could_not_start(problem) from None
        self._processes = TemplateProcesses(process)
        self._ready = loop.create_future()
        for end, handler in ((self._template, self._from_template), (self._supervisor, self._from_supervisor)):
            end.setblocking(False)
            loop.add_reader(end, handler)
        try:
            async with asyncio.timeout(_START_WAIT_S):
                missing = await self._ready
        except TimeoutError:
            await self.aclose()
            raise SandboxError("The box template did not start in time.", remedy=ASK_DOCTOR) from None
        except BaseException:
            await self.aclose()
            raise
        self.refill()
        return missing

    async def acquire(self) -> ForkedBox:
        """Return a box that is isolated and waits for its job.

        Raises:
            SandboxError: No box can be forked.
        """
        if self.dead:
            raise TemplateLost(f"The box template ended: {self.dead}.")
        if self._idle:
            return self._idle.popleft()
        future: asyncio.Future[ForkedBox] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._order_fork()
        return await self._answer(future, "fork a box", too_late=self._hand_out)

    def refill(self) -> None:
        """Fork until `warm` boxes are ready. Call it after sending a job, so that the job does not wait for a fork."""
        while not self.dead and len(self._idle) + self._forking < self._warm:
            self._order_fork()

    def kill(self, box: ForkedBox) -> None:
        """Kill the whole box. `box.gone` is set once it has ended."""
        if self.dead:
            box.gone.set()
        elif not box.gone.is_set():
            self._send(self._template, {"op": "kill", "id": box.id})

    async def open_workspace(self, path: str, *, writable: bool) -> int:
        """Open the folder as a detached mount; the caller closes the descriptor.

        Raises:
            SandboxError: The folder cannot be mounted in a box.
        """
        if len(os.fsencode(path)) > _MAX_PATH:
            raise SandboxError(
                f"The path of the workspace is longer than {_MAX_PATH} bytes.",
                remedy="Use a folder with a shorter path.",
            )
        if self.dead:
            raise TemplateLost(f"The box template ended: {self.dead}.")
        self._next_id += 1
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._mounts[self._next_id] = future
        self._send(self._supervisor, {"op": "open", "id": self._next_id, "path": path, "writable": writable})
        return await self._answer(future, f"open the workspace {path}", too_late=os.close)

    def abandon(self) -> None:
        """Kill the supervisor and the template, because the template no longer responds."""
        if self._processes is not None:
            self._processes.kill()
        self._die("it did not answer")

    async def aclose(self) -> None:
        """End every box and the template."""
        if self.hung and self._processes is not None:
            self._processes.kill()
        self._die("closed")
        if self._processes is not None:
            await asyncio.to_thread(self._processes.wait)

    async def _answer(self, future: "asyncio.Future[T]", what: str, *, too_late: Callable[[T], None]) -> T:
        """Wait for a reply. If the caller is cancelled, a reply that has already arrived is passed to `too_late`.

        Raises:
            TemplateLost: There was no reply in time.
        """
        loop = asyncio.get_running_loop()
        deadline, stopped = loop.time() + _ANSWER_WAIT_S, 0
        try:
            while not future.done():
                await asyncio.wait((future,), timeout=_LOOK_S)
                if future.done():
                    break
                stopped = stopped + 1 if self._processes is not None and self._processes.stopped() else 0
                if stopped >= _STOPPED_LOOKS or loop.time() > deadline:
                    self.hung = True
                    why = "it was stopped (SIGSTOP)" if stopped else "it does not answer"
                    message = f"The box template did not {what}: {why}."
                    future.set_exception(TemplateLost(message, remedy=ASK_DOCTOR))
            return future.result()
        except BaseException:
            if not future.cancel() and not future.cancelled() and future.exception() is None:
                too_late(future.result())
            raise

    def _order_fork(self) -> None:
        self._next_id += 1
        self.forks += 1
        self._forking += 1
        now = asyncio.get_running_loop().time()
        if now > self._pulse_until:
            self._pulse_until = now + _PULSE_AGAIN_S
            self._send(self._supervisor, {"op": "pulse"})
        self._send(self._template, {"op": "fork", "id": self._next_id})

    def _send(self, where: socket.socket | None, order: dict[str, Any]) -> None:
        if where is None or self.dead:
            return
        self._outbox.append((where, json.dumps(order).encode()))
        self._flush()

    def _flush(self) -> None:
        """Send the queued messages in order; continue when the other side has room again."""
        while self._outbox:
            where, message = self._outbox[0]
            try:
                where.send(message)
            except BlockingIOError:
                asyncio.get_running_loop().add_writer(where, self._resume, where)
                return
            except OSError:
                self._die("it was killed")
                return
            self._outbox.popleft()

    def _resume(self, where: socket.socket) -> None:
        asyncio.get_running_loop().remove_writer(where)
        self._flush()

    def _from_template(self) -> None:
        for _ in range(64):
            try:
                data, descriptors, _, _ = socket.recv_fds(self._template, orders.MAX_BYTES, 3, socket.MSG_CMSG_CLOEXEC)  # type: ignore[arg-type]
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self._die("it was killed")
                return
            self._handle(json.loads(data), descriptors)
            if self.dead:
                return

    def _handle(self, message: dict[str, Any], descriptors: list[int]) -> None:
        kind = message["op"]
        if kind == "ready" and self._ready is not None:
            if not self._ready.done():
                self._ready.set_result(message["missing"])
        elif kind == "box":
            self._forking -= 1
            self._take(message["id"], descriptors)
        elif kind == "gone":
            box_gone = self._boxes.pop(message["id"], None)
            if box_gone is not None:
                box_gone.gone.set()
                if box_gone in self._idle:
                    self._idle.remove(box_gone)
                    box_gone.close()
        elif kind == "failed":
            self._forking -= 1
            self._fail_one(SandboxError(f"No box could be forked: {message['error']}", remedy=ASK_DOCTOR))
        elif kind == "broken":
            self._die(message["error"], message.get("remedy", ASK_DOCTOR))

    def _take(self, box_id: int, descriptors: list[int]) -> None:
        """Register a new box. If this process could not receive all descriptors of the box, fail a waiting request."""
        if len(descriptors) == _DESCRIPTORS_PER_BOX:
            channel = socket.socket(fileno=descriptors[0])
            channel.setblocking(False)
            box = ForkedBox(box_id, channel, descriptors[1], descriptors[2])
            for descriptor in descriptors[1:]:
                os.set_blocking(descriptor, False)
            self._boxes[box_id] = box
            self._hand_out(box)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        self._send(self._template, {"op": "kill", "id": box_id})
        self._fail_one(SandboxError("This process has no file descriptor left for a box.", remedy=open_files.REMEDY))

    def _hand_out(self, box: ForkedBox) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(box)
                return
        if len(self._idle) < self._warm:
            self._idle.append(box)
        else:  # the task it was forked for has been cancelled
            self.kill(box)
            box.close()

    def _fail_one(self, problem: SandboxError) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(problem)
                return

    def _from_supervisor(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._supervisor, orders.MAX_BYTES, 1, socket.MSG_CMSG_CLOEXEC)  # type: ignore[arg-type]
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._die("its supervisor was killed")
            return
        message = json.loads(data)
        future = self._mounts.pop(message["id"], None)
        if future is None or future.done():
            for descriptor in descriptors:
                os.close(descriptor)
        elif message["op"] == "mount":
            future.set_result(descriptors[0])
        else:
            future.set_exception(
                SandboxError(
                    f"The workspace cannot be mounted in a box: {message['error']}.",
                    remedy="Use a folder on a file system with id-mapped mounts (ext4, xfs, btrfs, tmpfs), or run "
                    "Knackbox as an ordinary user.",
                )
            )

    def _die(self, why: str, remedy: str = ASK_DOCTOR) -> None:
        if self.dead:
            return
        self.dead = why
        loop = asyncio.get_running_loop()
        for end in (self._template, self._supervisor):
            if end is not None:
                loop.remove_reader(end)
                loop.remove_writer(end)
                end.close()
        self._outbox.clear()
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(SandboxError(f"The box template ended: {why}.", remedy=remedy))
        problem = TemplateLost(f"The box template ended: {why}.", remedy=remedy)
        while self._waiting:
            self._fail_one(problem)
        for future in self._mounts.values():
            if not future.done():
                future.set_exception(problem)
        for box in self._idle:
            box.close()
        self._idle.clear()
        for box in self._boxes.values():
            box.gone.set()

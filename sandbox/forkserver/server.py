"""`ForkServer`: the engine's side of one template. Starts it, keeps boxes ready, hands them out and kills them."""

import asyncio
import json
import math
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from sandbox.contract import End, SandboxError
from sandbox.forkserver import open_files, orders
from sandbox.forkserver.forked_box import BoxPool, DirectEnds, ForkedBox, WorkerStatus
from sandbox.forkserver.launch import Program, launch
from sandbox.forkserver.order_queue import OrderQueue
from sandbox.forkserver.ready_size import ReadySize
from sandbox.forkserver.template_processes import ASK_DOCTOR, TemplateProcesses, could_not_start

_START_WAIT_S = 60.0
_ANSWER_WAIT_S, _LOOK_S = 10.0, 0.5
_STOPPED_LOOKS = 2  # a process found stopped this many times in a row is given up
_PULSE_AGAIN_S = 1.0  # seconds between two requests for a pulse (`sandbox.namespace.pulse`), which lasts twice as long
_MAX_PATH = 4096  # PATH_MAX
_DESCRIPTORS_PER_BOX, _DESCRIPTORS_PER_DIRECT_BOX = 3, 6
_REPORTS_WITHIN_S = 1.0  # the time in which a supervisor reports how its template ended
_KEPT_READY_S = 60.0  # boxes of a kind that was not requested for this long are not forked ahead


T = TypeVar("T")


class TemplateLost(SandboxError):
    """The template ended or did not respond before a box was taken from it, so the caller may use another template."""


class ForkServer:
    """One template. Keeps `warm` boxes ready, and forks more on demand.

    There are two kinds of boxes. In an attended box, process 1 is a fork of the template, carries the job to the worker
    and answers for it. In a direct box, process 1 is a small program, and the engine talks to the worker itself.
    """

    def __init__(
        self, program: Program, config: Mapping[str, Any], warm: int, most_warm: int = 0, *, direct: bool = False
    ) -> None:
        """Create the object. `start` starts the processes of the template.

        Args:
            program: The program to start as the supervisor.
            config: The config of the template, in the form that the supervisor reads.
            warm: The number of boxes of a kind to keep ready.
            most_warm: The number to keep ready when `warm` were not enough, if it is more.
            direct: Whether the template can fork direct boxes.
        """
        self._config = config
        self._program = program
        self._warm = warm
        self.direct = direct
        self._processes: TemplateProcesses | None = None
        self._template: socket.socket | None = None
        self._supervisor: socket.socket | None = None
        self._pools = {direct: BoxPool(ReadySize(warm, most_warm)) for direct in (False, True)}
        self._kinds: dict[int, bool] = {}  # number of an ordered box -> whether it is direct
        self._boxes: dict[int, ForkedBox] = {}
        self._mounts: dict[int, asyncio.Future[int]] = {}
        self._over: dict[int, Callable[[str], None]] = {}
        self._findings: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._to_template: OrderQueue | None = None
        self._to_supervisor: OrderQueue | None = None
        self._ready: asyncio.Future[list[str]] | None = None
        self._next_id = 0
        self._pulse_until = 0.0
        self._shrink: asyncio.TimerHandle | None = None
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
            loop.add_reader(end.fileno(), handler)
        self._to_template = OrderQueue(self._template, self._ask_why)
        self._to_supervisor = OrderQueue(self._supervisor, self._ask_why)
        try:
            async with asyncio.timeout(_START_WAIT_S):
                missing = await self._ready
        except TimeoutError:
            await self.aclose()
            raise SandboxError("The box template did not start in time.", remedy=ASK_DOCTOR) from None
        except BaseException:
            await self.aclose()
            raise
        self._pools[self.direct].asked = loop.time()
        self.refill()
        return missing

    async def acquire(self, *, direct: bool = False) -> ForkedBox:
        """Return a box that is isolated and waits for its job.

        Raises:
            SandboxError: No box can be forked.
        """
        if self.dead:
            raise TemplateLost(f"The box template ended: {self.dead}.")
        pool, loop = self._pools[direct], asyncio.get_running_loop()
        pool.asked = loop.time()
        if pool.idle:
            return pool.idle.popleft()
        if self._warm:
            pool.size.missed(pool.asked)
        future: asyncio.Future[ForkedBox] = loop.create_future()
        pool.waiting.append(future)
        self._order_fork(direct=direct)
        return await self._answer(future, "fork a box", too_late=self._hand_out)

    def refill(self) -> None:
        """Fork until as many boxes of each kind in use are ready as the demand asks for, and discard those beyond it.

        Call it after sending a job, so that the job does not wait for a fork.
        """
        loop = asyncio.get_running_loop()
        if self._shrink is not None:
            self._shrink.cancel()
            self._shrink = None
        if self.dead:
            return
        now, after = loop.time(), math.inf
        for direct, pool in self._pools.items():
            size = pool.size.at(now)
            while len(pool.idle) > size:
                self._discard(pool.idle.pop())
            if pool.asked >= now - _KEPT_READY_S:
                for _ in range(size - len(pool.idle) - pool.forking):
                    self._order_fork(direct=direct)
            after = min(after, pool.size.shrinks_after())
        if after < math.inf:
            self._shrink = loop.call_later(after, self.refill)

    def kill(self, box: ForkedBox) -> None:
        """Kill the whole box. `box.gone` is set once it has ended."""
        if self.dead:
            box.gone.set()
        elif not box.gone.is_set():
            self._tell(self._to_template, {"op": "kill", "id": box.id})

    def watch(
        self, box: ForkedBox, request: dict[str, Any], descriptors: Sequence[int], on_over: Callable[[str], None]
    ) -> None:
        """Have the supervisor check the limits of a direct box, until `findings` is called.

        Args:
            box: The box, whose job runs.
            request: The rest of the order (`sandbox.namespace.outside_watch`).
            descriptors: Those of the order.
            on_over: Called once with the name of a limit if the box exceeds one, or with "killed" if it cannot be
                watched.
        """
        over = {"op": "over", "id": box.id, "reason": End.KILLED}
        refused = partial(self._handle_supervisor, over, [])
        self._tell(self._to_supervisor, {"op": "watch", "id": box.id, **request}, descriptors, refused)
        self._over[box.id] = on_over

    async def findings(self, box: ForkedBox) -> dict[str, Any]:
        """End a watch, and return what it found.

        Raises:
            TemplateLost: The supervisor has ended.
        """
        if self.dead:
            raise TemplateLost(f"The box template ended: {self.dead}.")
        self._over.pop(box.id, None)
        future = self._findings[box.id] = asyncio.get_running_loop().create_future()
        self._tell(self._to_supervisor, {"op": "unwatch", "id": box.id})
        return await self._answer(future, "measure a box", too_late=lambda _: None)

    def forget_watch(self, box: ForkedBox) -> None:
        """End a watch whose findings nobody needs."""
        self._over.pop(box.id, None)
        self._tell(self._to_supervisor, {"op": "unwatch", "id": box.id})

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
        self._tell(self._to_supervisor, {"op": "open", "id": self._next_id, "path": path, "writable": writable})
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

    def _order_fork(self, *, direct: bool) -> None:
        self._next_id += 1
        self.forks += 1
        self._pools[direct].forking += 1
        self._kinds[self._next_id] = direct
        now = asyncio.get_running_loop().time()
        if now > self._pulse_until:
            self._pulse_until = now + _PULSE_AGAIN_S
            self._tell(self._to_supervisor, {"op": "pulse"})
        self._tell(self._to_template, {"op": "fork", "id": self._next_id, "direct": direct})

    def _tell(
        self,
        queue: OrderQueue | None,
        order: dict[str, Any],
        descriptors: Sequence[int] = (),
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        if queue is not None and not self.dead:
            queue.send(order, descriptors, on_refused)

    def _from_template(self) -> None:
        for _ in range(64):
            try:
                data, descriptors, _, _ = socket.recv_fds(
                    self._template,  # type: ignore[arg-type]
                    orders.MAX_BYTES,
                    _DESCRIPTORS_PER_DIRECT_BOX,
                    socket.MSG_CMSG_CLOEXEC,
                )
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self._ask_why()
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
            self._pools[self._kinds[message["id"]]].forking -= 1
            self._take(message["id"], descriptors)
        elif kind == "ended":
            self._worker_ended(message)
        elif kind == "gone":
            self._lose(message["id"])
        elif kind == "failed":
            pool = self._pools[self._kinds.pop(message["id"])]
            pool.forking -= 1
            pool.fail_one(SandboxError(f"No box could be forked: {message['error']}", remedy=ASK_DOCTOR))
        elif kind == "broken":
            self._die(message["error"], message.get("remedy", ASK_DOCTOR))

    def _take(self, box_id: int, descriptors: list[int]) -> None:
        """Register a new box. If this process could not receive all descriptors of the box, fail a waiting request."""
        direct = self._kinds[box_id]
        if len(descriptors) == (_DESCRIPTORS_PER_DIRECT_BOX if direct else _DESCRIPTORS_PER_BOX):
            channel = socket.socket(fileno=descriptors[0])
            channel.setblocking(False)
            box = ForkedBox(box_id, channel, descriptors[1], descriptors[2])
            for descriptor in descriptors[1:_DESCRIPTORS_PER_BOX]:
                os.set_blocking(descriptor, False)
            if direct:
                line = socket.socket(fileno=descriptors[3])
                line.setblocking(False)
                ended: asyncio.Future[WorkerStatus] = asyncio.get_running_loop().create_future()
                box.direct = DirectEnds(line, (descriptors[4], descriptors[5]), ended)
            self._boxes[box_id] = box
            self._hand_out(box)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        self._tell(self._to_template, {"op": "kill", "id": box_id})
        no_room = SandboxError("This process has no file descriptor left for a box.", remedy=open_files.REMEDY)
        self._pools[direct].fail_one(no_room)

    def _hand_out(self, box: ForkedBox) -> None:
        pool = self._pools[box.direct is not None]
        if self.dead:
            box.close()
            return
        while pool.waiting:
            future = pool.waiting.popleft()
            if not future.done():
                future.set_result(box)
                return
        if len(pool.idle) < pool.size.at(asyncio.get_running_loop().time()):
            pool.idle.append(box)
        else:  # the task it was forked for has been cancelled
            self._discard(box)

    def _discard(self, box: ForkedBox) -> None:
        self.kill(box)
        box.close()

    def _worker_ended(self, message: dict[str, Any]) -> None:
        box = self._boxes.get(message["id"])
        if box is None or box.direct is None:
            return
        if not box.direct.ended.done():
            box.direct.ended.set_result(WorkerStatus(message["status"], message["cpu_s"], message["peak_bytes"]))
        if box in self._pools[True].idle:  # it ended before it got a job
            self._pools[True].idle.remove(box)
            box.close()

    def _lose(self, box_id: int) -> None:
        """Forget a box that is gone."""
        direct = self._kinds.pop(box_id, False)
        box = self._boxes.pop(box_id, None)
        if box is not None:
            box.lose()
            if box in self._pools[direct].idle:
                self._pools[direct].idle.remove(box)
                box.close()

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
        self._handle_supervisor(json.loads(data), descriptors)

    def _handle_supervisor(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if message["op"] in ("ended", "broken"):
            self._die(_end_of(message["status"]) if message["op"] == "ended" else message["error"])
            return
        if message["op"] == "over":
            on_over = self._over.pop(message["id"], None)
            if on_over is not None:
                on_over(message["reason"])
            return
        if message["op"] == "watched":
            found = self._findings.pop(message["id"], None)
            if found is not None and not found.done():
                found.set_result(message)
            return
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

    def _ask_why(self) -> None:
        """Wait for the supervisor to report how the template ended. Its own end is noticed as well."""
        loop = asyncio.get_running_loop()
        if not self.dead and self._template is not None and loop.remove_reader(self._template.fileno()):
            loop.call_later(_REPORTS_WITHIN_S, self._die, "its supervisor did not report how")

    def _die(self, why: str, remedy: str = ASK_DOCTOR) -> None:
        if self.dead:
            return
        self.dead = why
        if self._shrink is not None:
            self._shrink.cancel()
        self._close_sockets()
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(SandboxError(f"The box template ended: {why}.", remedy=remedy))
        problem = TemplateLost(f"The box template ended: {why}.", remedy=remedy)
        for pool in self._pools.values():
            pool.close(problem)
        futures: tuple[asyncio.Future[Any], ...] = (*self._mounts.values(), *self._findings.values())
        for future in futures:
            if not future.done():
                future.set_exception(problem)
        for box in self._boxes.values():
            box.lose()

    def _close_sockets(self) -> None:
        loop = asyncio.get_running_loop()
        for end, queue in ((self._template, self._to_template), (self._supervisor, self._to_supervisor)):
            if end is not None and queue is not None:
                queue.close()
                loop.remove_reader(end.fileno())
                end.close()


def _end_of(status: int) -> str:
    """Describe how a process ended, given its wait status."""
    code = os.waitstatus_to_exitcode(status)
    return f"it was ended by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"it exited with code {code}"

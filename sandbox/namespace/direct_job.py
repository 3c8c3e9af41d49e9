"""`DirectJob`: the engine's side of one job in a direct box.

The job goes to the worker, and the worker's report comes back, without a process in between. Process 1 of the box only
carries out orders: it prepares the box, and at the end stops or kills everything in it and reports what the kernel
counted.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sandbox import worker
from sandbox.contract import Job, OnOutput, Outcome, SandboxError, Stream
from sandbox.forkserver import outcomes
from sandbox.forkserver.forked_box import DirectEnds, ForkedBox
from sandbox.forkserver.output_reader import OutputReader
from sandbox.forkserver.server import ForkServer, TemplateLost
from sandbox.linux import answer, cgroups
from sandbox.linux.attend import WorkerEnd
from sandbox.namespace.box import DEFAULT_DISK_BYTES
from sandbox.namespace.box_line import BoxLine
from sandbox.namespace.direct_usage import DirectUsage, MeasuredUse
from sandbox.namespace.outside_watch import UNWATCHABLE
from sandbox.namespace.process_one import BoxReport, OrderKind
from sandbox.namespace.worker_report import WorkerReport
from sandbox.nodes import MAX_NODES, too_many_nodes
from sandbox.wire import results

_FIRST_LOOK_S = 0.01  # a job that ends before is not watched; the kernel's own limits apply from the beginning
_GRACE_S = 5.0  # process 1 ends the box this much later than the job's time limit, in case the engine does not
_PARSED_AT_ONCE = 16 << 10  # bytes; a longer report is parsed in a thread
_FLOOD_PAUSE_S = 0.05
_FLOOD_READS = 64  # wakes with less than `_PROGRESS` bytes, after which the channel is left alone for a moment
_PROGRESS = 4096
_END_WAIT_S = 5.0
_FINDINGS_WAIT_S = 1.5  # without them, only what the kernel counted is known


class DirectJob:
    """One job in a direct box that is used once. Create it inside a running event loop, and always close it."""

    def __init__(
        self,
        server: ForkServer,
        box: ForkedBox,
        job: Job,
        on_output: OnOutput | None,
        on_listener: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        """Create the object.

        Args:
            server: The template the box was forked from.
            box: The box, which has not received a job.
            job: The job.
            on_output: Called with the output as it arrives.
            on_listener: Called with the descriptor of the socket that listens in the box, if the job has a bridge.
        """
        if box.direct is None:
            raise ValueError("the box is not a direct box")
        if job.collect or job.egress:  # their answers are made from the files of the process that concludes the job
            raise ValueError("a direct box can neither bring back files nor connect to anything")
        self._loop = asyncio.get_running_loop()
        self._server = server
        self._box = box
        self._ends: DirectEnds = box.direct
        self.job = job
        self._on_listener = on_listener
        pipes: dict[Stream, int] = {"stdout": box.stdout, "stderr": box.stderr}
        self._output = OutputReader(pipes, job.limits, on_output, self._stop_for_output, self._fail)
        self._report = WorkerReport(box.channel)
        self._usage = DirectUsage(self._report)
        self._line = BoxLine(self._ends.line, self._hand_over, partial(self.stop, ""))
        self._header: dict[str, Any] = {}
        self._over: asyncio.Future[str] = self._loop.create_future()  # why the job must be ended; "" if it ended itself
        self._started = self._loop.time()
        self._looking: asyncio.TimerHandle | None = None
        self._listening: asyncio.TimerHandle | None = None
        self._wall: asyncio.TimerHandle | None = None
        self._left_s = job.limits.wall_s
        self._backstop: asyncio.Timeout | None = None
        self._workspace: tuple[int, ...] = ()
        self._free_before = -1
        self._watched = False
        self._idle_reads = 0
        self._waited = False
        self._start_error = 0
        self.sent = False

    async def send(self, header: dict[str, Any], body: bytes, tree: int) -> None:
        """Send the job to the box. `tree` is the descriptor of the workspace's mount; -1 if there is none."""
        self._header = header
        self._report.read()  # the announcement of a worker that has waited
        self._waited = self._report.before is not None
        self._line.listen()
        if tree >= 0 and header["mount"] == "through":
            self._workspace = (os.dup(tree),)
            space = os.fstatvfs(tree)
            self._free_before = space.f_bfree * space.f_frsize
        prepared = self._ask_to_start(header, tree)
        if tree >= 0 or header["bridge"] or header["limits"]["disk_bytes"] != DEFAULT_DISK_BYTES:
            await self._check_start(prepared)
        else:  # nothing that the worker could find missing
            if prepared.done():  # the order could not be given
                await self._check_start(prepared)
            prepared.add_done_callback(self._check_late)
        frame = worker.pack(header, body)
        self._started = self._loop.time()
        try:
            done = self._box.channel.send(frame)
            self.sent = True
            if done < len(frame):
                await self._loop.sock_sendall(self._box.channel, memoryview(frame)[done:])
        except OSError as problem:
            raise SandboxError(f"The box ended before it received its job: {problem}.") from None
        self._loop.add_reader(self._box.channel.fileno(), self._on_channel)
        self._output.start()
        self._wall = self._loop.call_later(self._left_s, self.stop, "timeout")
        self._looking = self._loop.call_later(_FIRST_LOOK_S, self._watch)
        self._ends.ended.add_done_callback(self._on_worker_ended)

    async def outcome(self) -> Outcome:
        """Wait for the end of the job. If `on_output` raised an exception, this method raises it too.

        Raises:
            SandboxError: The box itself failed.
        """
        reason = await self._over
        wall_s = self._loop.time() - self._started
        try:
            async with asyncio.timeout(_END_WAIT_S):
                report = await self._ended_report(reason)
        except TimeoutError:
            raise SandboxError("The box did not end.", may_have_started=True) from None
        self._output.read_rest()
        if self._report.problem:
            raise SandboxError(f"The box could not run the job: {self._report.problem}.")
        if self._start_error:
            why = os.strerror(self._start_error)
            raise SandboxError(f"The box could not limit the job: {why}.", may_have_started=True)
        if report is None:
            return outcomes.without_answer(self._output, wall_s)
        ended, measured = report
        if len(ended.answer) <= _PARSED_AT_ONCE:
            said, body = answer.conclude(self._header, ended, measured)
        else:
            said, body = await asyncio.to_thread(self._conclude_long, ended, measured)
        return outcomes.with_answer(said, body, self._output, wall_s)

    def _conclude_long(self, ended: WorkerEnd, measured: MeasuredUse) -> tuple[worker.Message, bytes]:
        if too_many_nodes(ended.answer, 2 * MAX_NODES):
            raise SandboxError("The box's answer has too many JSON values.", may_have_started=True)
        return answer.conclude(self._header, ended, measured)

    def stop(self, reason: str) -> None:
        """End the job for this reason, a member of `End`."""
        if not self._over.done():
            self._over.set_result(str(reason))

    def signal(self, number: int) -> None:
        """Send this signal to the job's process group."""
        if self.sent and not self._over.done():
            self._line.ask(OrderKind.SIGNAL, number)

    async def signalled(self) -> None:
        """Wait until every requested signal was sent, or the box has ended."""
        await self._line.answered()

    def limit(self, backstop: asyncio.Timeout) -> None:
        """Set the timeout that ends the job if nothing else does. `pause` stops it, too."""
        self._backstop = backstop

    def pause(self) -> None:
        """Stop the job's wall clock. Its processes go on, and all other limits apply."""
        if self._wall is None or self._over.done():
            return
        self._left_s = self._wall.when() - self._loop.time()
        self._wall.cancel()
        self._wall = None
        if self._backstop is not None:
            self._backstop.reschedule(None)
        self._line.tell(OrderKind.DEADLINE)

    def resume(self) -> None:
        """Let the job's wall clock go on."""
        if self._wall is not None:
            return
        if self._backstop is not None:
            self._backstop.reschedule(self._loop.time() + self._left_s + _GRACE_S)
        if self._over.done():
            return
        self._wall = self._loop.call_later(self._left_s, self.stop, "timeout")
        self._line.tell(OrderKind.DEADLINE, values=(_milliseconds(self._left_s + _GRACE_S),))

    def close(self) -> None:
        for timer in (self._looking, self._listening, self._wall):
            if timer is not None:
                timer.cancel()
        self._ends.ended.remove_done_callback(self._on_worker_ended)
        if self._box.channel.fileno() >= 0:
            self._loop.remove_reader(self._box.channel.fileno())
            self._output.stop()
        self._line.close()
        if self._watched:
            self._server.forget_watch(self._box)
        for descriptor in self._workspace:
            os.close(descriptor)
        self._workspace = ()
        self._box.close()

    # The beginning

    def _ask_to_start(self, header: dict[str, Any], tree: int) -> "asyncio.Future[BoxReport]":
        limits = header["limits"]
        bounds = cgroups.GroupBounds.of(limits)
        address, port = header["bridge"] or ("0.0.0.0", 0)  # noqa: S104  (port 0: nothing listens)
        disk = limits["disk_bytes"] if limits["disk_bytes"] != DEFAULT_DISK_BYTES else 0
        values = (
            disk,
            bounds.memory,
            bounds.processes,
            bounds.sockets,
            _milliseconds(self._left_s + _GRACE_S),
            int.from_bytes(socket.inet_aton(address), "little"),
        )
        return self._line.ask(OrderKind.START, port, values, (tree,) if tree >= 0 else ())

    async def _check_start(self, prepared: "asyncio.Future[BoxReport]") -> None:
        try:
            report = await prepared
        except EOFError as problem:
            raise SandboxError(f"The box could not be prepared for its job: {problem}.") from None
        self._note_start(report)
        if report.error:
            raise SandboxError(f"The box could not run the job: {os.strerror(report.error)}.")

    def _check_late(self, prepared: "asyncio.Future[BoxReport]") -> None:
        if prepared.cancelled():
            return
        if prepared.exception() is None:
            self._note_start(prepared.result())
        if prepared.exception() is not None or self._start_error:  # a job must not run without its limits
            self.stop("killed")

    def _note_start(self, report: BoxReport) -> None:
        self._start_error = report.error
        if self._waited:  # otherwise the group's time still contains the worker's preparation
            self._usage.begin(report)

    def _watch(self) -> None:
        if self._over.done():
            return
        if self._report.before is None:  # a box that was forked for this job is still being confined
            self._looking = self._loop.call_later(_FIRST_LOOK_S, self._watch)
            return
        request = {"limits": self._header["limits"], "before": self._report.before, "free": self._free_before}
        try:  # a job must not run unwatched
            self._server.watch(self._box, request, (*self._ends.shown, *self._workspace), self.stop)
        except OSError:  # this process has no descriptor left
            self.stop(UNWATCHABLE)
        else:
            self._watched = True

    # The end

    async def _ended_report(self, reason: str) -> tuple[WorkerEnd, MeasuredUse] | None:
        """Stop or kill all processes of the box. Return how the worker ended; None if the box was killed as a whole."""
        try:
            complete = self._report.complete
            report = await self._line.ask(OrderKind.STOP if complete and not reason else OrderKind.KILL)
            used = self._usage.of_worker(report) if report.kind == OrderKind.STOP else None
            status = 0
            if used is None:
                if report.kind == OrderKind.STOP:
                    report = await self._line.ask(OrderKind.KILL)
                ended = await self._ends.ended
                self._report.read(results.MOST_READS)  # all that there is: nobody can send more
                status = 0 if self._report.complete and not reason else ended.status
        except EOFError:
            return None
        found = await self._findings()
        if used is None:
            used = self._usage.of_all(report, ended.cpu_s, ended.peak_bytes, found["cpu_s"])
        measured = self._usage.measured(report, found, self.job.limits.cpu_s)
        return WorkerEnd(reason, status, bytes(self._report.frame), used), measured

    async def _findings(self) -> dict[str, Any]:
        if self._watched:
            self._watched = False
            with contextlib.suppress(TemplateLost, TimeoutError):
                async with asyncio.timeout(_FINDINGS_WAIT_S):
                    return await self._server.findings(self._box)
        return {"hits": [], "peak_bytes": 0, "cpu_s": 0.0}

    # Events

    def _on_channel(self) -> None:
        received = len(self._report.frame)
        if not self._report.read():
            self._loop.remove_reader(self._box.channel.fileno())  # the worker will end, or report nothing
        if self._report.complete:
            self._loop.remove_reader(self._box.channel.fileno())
            self.stop("")
            return
        progress = len(self._report.frame) - received
        self._idle_reads = 0 if progress >= _PROGRESS else self._idle_reads + 1
        if self._idle_reads >= _FLOOD_READS:  # messages of the job's other processes, or very small ones
            self._loop.remove_reader(self._box.channel.fileno())
            self._listening = self._loop.call_later(_FLOOD_PAUSE_S, self._listen_again)

    def _listen_again(self) -> None:
        if not self._over.done():
            self._idle_reads = 0
            self._loop.add_reader(self._box.channel.fileno(), self._on_channel)

    def _on_worker_ended(self, _: object) -> None:
        self._report.read()
        self.stop("")

    def _hand_over(self, descriptors: list[int]) -> None:
        if self._on_listener is None:
            for descriptor in descriptors:
                os.close(descriptor)
            return
        try:
            self._on_listener(descriptors)
        except SandboxError as problem:
            self._fail(problem)

    def _stop_for_output(self) -> None:
        self.stop("output")

    def _fail(self, problem: Exception) -> None:
        if not self._over.done():
            self._over.set_exception(problem)


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))

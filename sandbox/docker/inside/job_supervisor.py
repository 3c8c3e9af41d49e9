"""Supervises a running job in process 1: forwards its output and connections, enforces its limits, and ends it.

It works with any OCI runtime: it waits for SIGCHLD instead of a pidfd, which gVisor lacks. Standard library only.
"""

import contextlib
import os
import select
import signal
import time

from sandbox import worker
from sandbox.docker.flows import Flows
from sandbox.docker.frames import Frame, Frames
from sandbox.docker.inside import counters
from sandbox.docker.inside.confine import Confined
from sandbox.docker.inside.job_connections import JobConnections
from sandbox.docker.inside.outbox import Outbox
from sandbox.linux.attend import WorkerEnd, wake_on_child
from sandbox.linux.watch import Used

_FIRST_LOOK_S, _LAST_PAUSE_S, _RESTING_PAUSE_S = 0.01, 0.05, 0.4
_KILL_AGAIN_S = 0.01
_READ = 1 << 16


class JobSupervisor:
    """Supervises one job.

    The engine sends orders over the descriptor `orders`, which reaches end of file if the engine dies. `inlets` are
    the job's ports to which the engine connects.
    """

    def __init__(self, running: Confined, orders: int, outbox: Outbox, inlets: list[int]) -> None:
        self._running = running
        self._printed = {running.out: "stdout", running.err: "stderr"}
        self._orders = orders
        self._outbox = outbox
        self._results = running.results
        self._seen = 0
        self._status: int | None = None
        self._poller = select.poll()
        self._ordered = Frames()
        self._flows = Flows(self._poller, outbox.put, metered=False)
        self._inlets = JobConnections(self._poller, self._flows, inlets)
        self._last_pause_s = _RESTING_PAUSE_S if inlets else _LAST_PAUSE_S  # a server may be idle for hours
        self._woken = wake_on_child()

    def run(self, limits: worker.Message, watch: counters.ContainerWatch) -> WorkerEnd:
        """Supervise the job until it ends or reaches a limit, then kill all its processes.

        Raises:
            EOFError: The engine is gone.
        """
        for descriptor in (self._orders, self._results.fileno(), self._woken):
            self._poller.register(descriptor, select.POLLIN)
        try:
            reason = self._wait(limits, watch)
        finally:
            used = watch.used_alone(self._running.pid) if self._results.complete else None
            _kill_all()
            if used is None:
                self._reap_all()  # every process of the job is dead before the engine gets the answer
        self._flows.read_out()
        self._results.drain()
        self._pass_on_the_rest(limits["output_bytes"])
        if not reason and self._seen > limits["output_bytes"]:
            reason = "output"
        if not reason and self._status is not None and os.WIFSIGNALED(self._status):
            reason = self._why_killed() if os.WTERMSIG(self._status) == signal.SIGKILL else ""
        status = 0 if self._results.complete and not reason else self._status or 0
        return WorkerEnd(reason, status, bytes(self._results.received), self._used(used, watch))

    @staticmethod
    def _why_killed() -> str:
        """Return the limit for which the kernel killed the job, or "". A fork bomb also fills the memory, but later."""
        if not counters.out_of_memory_kills():
            return ""
        return "processes" if counters.refused_forks() else "memory"

    @staticmethod
    def _used(alone: Used | None, watch: counters.ContainerWatch) -> Used:
        return watch.used_by_all() if alone is None else alone

    def _wait(self, limits: worker.Message, watch: counters.ContainerWatch) -> str:
        """Wait until the job ends or exceeds a limit. Return that limit, or "" if the job sent a result or exited."""
        deadline = time.monotonic() + limits["wall_s"]
        pause = _FIRST_LOOK_S
        look_at = time.monotonic() + pause
        while True:
            self._listen_where_there_is_room()
            now = time.monotonic()
            wait = max(0.0, min(look_at, deadline) - now)
            again = self._inlets.try_again()
            events = dict(self._poller.poll((wait if again is None else min(wait, again)) * 1000))
            if self._orders in events:
                self._carry_out()
            channel = self._results.fileno()
            if channel in events and not self._results.drain() and events[channel] & select.POLLHUP:
                self._poller.unregister(channel)
            if self._woken in events:
                self._clear_wake_up()
                self._reap()
            self._carry(events)
            self._outbox.flush()
            self._pass_on()
            if self._seen > limits["output_bytes"]:
                return "output"
            if self._results.complete or self._status is not None:
                return ""
            now = time.monotonic()
            if now >= deadline:
                return "timeout"
            if now >= look_at:
                if reason := watch.exceeded():
                    return reason
                pause = min(self._last_pause_s if watch.resting else _LAST_PAUSE_S, pause * 2)
                look_at = now + pause

    def _carry_out(self) -> None:
        """Process the engine's messages to a running job: data for the job's ports, or a signal for its process group.

        A signal is acknowledged once it is sent. The engine waits for that, so the signal cannot interrupt a request
        that the engine sends to the job later.

        Raises:
            EOFError: The engine is gone.
        """
        data = os.read(self._orders, _READ)
        if not data:
            raise EOFError
        for frame in self._ordered.feed(data):
            if "signal" in frame.header:
                self._signal(frame)
            else:
                self._inlets.take(frame)

    def _signal(self, frame: Frame) -> None:
        if self._status is None:  # once the job has exited, its pid may belong to another process
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, frame.header["signal"])
        self._outbox.put({"signalled": True})

    def _carry(self, events: dict[int, int]) -> None:
        for descriptor in events:
            if self._inlets.tries(descriptor):
                self._inlets.move(descriptor)
            elif self._flows.carries(descriptor):
                self._flows.move(descriptor)

    def _listen_where_there_is_room(self) -> None:
        """Poll the job's output only while the outbox has room. While the outbox is full, the job blocks on writing."""
        self._flows.listen(room=not self._outbox.full)
        for descriptor in self._printed:
            if self._outbox.full:
                with contextlib.suppress(KeyError):
                    self._poller.unregister(descriptor)
            else:
                self._poller.register(descriptor, select.POLLIN)
        if self._outbox.waiting:
            self._poller.register(self._outbox.descriptor, select.POLLOUT)
        else:
            with contextlib.suppress(KeyError):
                self._poller.unregister(self._outbox.descriptor)

    def _pass_on(self) -> None:
        """Forward one piece from each of the job's pipes, so that fast output does not delay the limits."""
        for descriptor in list(self._printed):
            if not self._outbox.full:
                self._pass_on_from(descriptor)

    def _pass_on_the_rest(self, most: int) -> None:
        """Forward the rest of the output once no process can write more; output over the limit is dropped."""
        for descriptor in list(self._printed):
            while self._seen <= most and self._pass_on_from(descriptor):
                pass

    def _pass_on_from(self, descriptor: int) -> bool:
        """Forward one piece of output from this pipe. Return whether there was data."""
        try:
            data = os.read(descriptor, _READ)
        except BlockingIOError:
            return False
        if not data:
            self._forget(descriptor)
            return False
        self._seen += len(data)
        self._outbox.put({"printed": self._printed[descriptor]}, data)
        return True

    def _forget(self, descriptor: int) -> None:
        del self._printed[descriptor]
        with contextlib.suppress(KeyError):
            self._poller.unregister(descriptor)
        os.close(descriptor)

    def _reap_all(self) -> None:
        """Kill and reap processes until none is left.

        One signal to all processes is not enough in gVisor, where it can miss a child that is being forked meanwhile.
        """
        while self._reap():
            select.select([self._woken], [], [], _KILL_AGAIN_S)
            self._clear_wake_up()
            _kill_all()

    def _clear_wake_up(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, _READ)

    def _reap(self) -> bool:
        """Reap the processes that have ended. Return whether others are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._running.pid:
                self._status = status


def _kill_all() -> None:
    """Send SIGKILL to every process but process 1."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)

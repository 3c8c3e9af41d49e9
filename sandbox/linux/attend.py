"""Supervises a worker from process 1 of the box: reads its report, and ends it at a limit or when the engine asks."""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass
from types import FrameType

from sandbox import worker
from sandbox.linux.watch import TreeWatch, Used
from sandbox.linux.worker_process import WorkerProcess
from sandbox.wire.results import of_this_process

_FIRST_LOOK_S, _LAST_PAUSE_S, _RESTING_PAUSE_S = 0.01, 0.05, 0.4
_READ = 1 << 16


@dataclass(frozen=True)
class WorkerEnd:
    """How the worker ended, and the resources that the box used.

    Attributes:
        reason: The reason why the worker was ended; "" if it sent a report or exited by itself.
        status: The exit status, in the form that waitpid returns; 0 after a report.
        answer: The report's frame, as far as it was received.
        used: CPU time and memory.
    """

    reason: str
    status: int
    answer: bytes
    used: Used


def attend(
    running: WorkerProcess, channel: socket.socket, wall_s: float, watch: TreeWatch, *, patient: bool = False
) -> WorkerEnd:
    """Supervise the worker to its end. Return once all processes of the box are killed, or permanently stopped.

    A worker that has reported and had no other processes is only stopped, and dies with this process: killing it now
    would take CPU time from the process that waits for the answer.

    Args:
        running: The worker.
        channel: The socket that is connected to the engine.
        wall_s: The wall-clock limit.
        watch: Measures what the processes of the box use.
        patient: Whether to check less often while the job is idle, since it may be idle for hours.

    Raises:
        EOFError: The engine is gone.
    """
    results = running.results
    reason = _wait(running, channel, _WallClock(wall_s), watch, patient=patient)
    used = watch.used_alone(running.pid) if not reason and results.complete else None
    with contextlib.suppress(ProcessLookupError):  # kill every other process of the box, including daemons of the job
        os.kill(-1, signal.SIGKILL if used is None else signal.SIGSTOP)
    if used is not None:
        return WorkerEnd("", 0, bytes(results.received), used)
    answered = results.complete
    status = _reap(running.pid)
    results.drain()
    return WorkerEnd(reason, 0 if answered and not reason else status, bytes(results.received), watch.used_by_all())


def rehearse(watch: TreeWatch, limits: worker.Message, worker_pid: int) -> WorkerEnd:
    """Run once, before there is a job, the code that handles the most common end of a job (see `worker.rehearse`)."""
    watch.begin(limits, worker_pid)
    results, theirs = of_this_process()
    worker.write_all(theirs, worker.pack({"end": "ok", "exit_code": 0, "value": [1, "a", None]}))
    os.close(theirs)
    poller = select.poll()
    poller.register(results, select.POLLIN)
    poller.poll(0)
    results.drain()
    os.close(os.pidfd_open(worker_pid))
    results.close()
    return WorkerEnd("", 0, bytes(results.received), watch.used_alone(worker_pid) or Used(0.0, 0))


class _WallClock:
    """The time that a job has left. It can be stopped."""

    def __init__(self, left_s: float) -> None:
        self._left_s = left_s
        self._end: float | None = time.monotonic() + left_s  # None while the clock is stopped

    def set(self, *, stopped: bool) -> None:
        """Stop the clock, or let it go on."""
        if stopped and self._end is not None:
            self._left_s, self._end = self._end - time.monotonic(), None
        elif not stopped and self._end is None:
            self._end = time.monotonic() + self._left_s

    def until(self, moment: float) -> float:
        """Return the seconds until this moment, or until the job's time is up, whichever is first."""
        first = moment if self._end is None else min(moment, self._end)
        return max(0.0, first - time.monotonic())

    def is_over(self, now: float) -> bool:
        """Return whether the job's time is up."""
        return self._end is not None and now >= self._end


def _wait(running: WorkerProcess, channel: socket.socket, clock: _WallClock, watch: TreeWatch, *, patient: bool) -> str:
    """Wait until the worker ends or must be ended. Return why it must be ended; "" if it reported or exited."""
    results = running.results
    exited, woken = os.pidfd_open(running.pid), wake_on_child()
    poller = select.poll()
    for descriptor in (exited, woken, results.fileno(), channel.fileno()):
        poller.register(descriptor, select.POLLIN)
    reason, pause = "", _FIRST_LOOK_S
    look_at = time.monotonic() + pause
    while not reason:
        events = dict(poller.poll(clock.until(look_at) * 1000))
        if woken in events:
            os.read(woken, _READ)
            reap_orphans(running.pid)
        if results.fileno() in events and not results.drain() and events[results.fileno()] & select.POLLHUP:
            poller.unregister(results)
        if exited in events or results.complete:
            break
        if channel.fileno() in events:
            reason = _carry_out(_order(channel), running.pid, channel, clock)
            continue
        # Checked on a schedule instead of when idle, because a job can cause events all the time.
        now = time.monotonic()
        if clock.is_over(now):
            reason = "timeout"
        elif now >= look_at:
            reason = watch.exceeded()
            pause = min(_RESTING_PAUSE_S if patient and watch.resting else _LAST_PAUSE_S, pause * 2)
            look_at = time.monotonic() + pause
    return reason


def wake_on_child() -> int:
    """Return a descriptor that becomes readable whenever a child has ended, and once at the start."""
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _do_nothing)
    os.write(wake, b"\0")  # for a child that has already ended
    return woken


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle SIGCHLD, which only has to write a byte to the wake-up descriptor."""


def reap_orphans(worker_pid: int) -> None:
    """Reap orphaned processes that have ended. The worker's own status is left for later."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == worker_pid:
                return
            os.waitpid(ended.si_pid, 0)


def _carry_out(order: worker.Message, worker_pid: int, channel: socket.socket, clock: _WallClock) -> str:
    """Carry out an order; return a reason to end the job, or "".

    The order may stop the job's clock, let it go on, or send a signal to the worker's process group.

    A signal is acknowledged once it is sent. The engine waits for that, so a signal cannot hit a later request.
    """
    if "paused" in order:
        clock.set(stopped=order["paused"])
        return ""
    if "signal" in order:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker_pid, order["signal"])
        channel.sendall(worker.pack({"kind": "signalled"}))
        return ""
    return str(order["stop"])


def _order(channel: socket.socket) -> worker.Message:
    """Read an order from the engine.

    Raises:
        EOFError: The stream has ended, because nobody waits for the job any more.
    """
    try:
        head = channel.recv(worker.HEADER.size, socket.MSG_WAITALL)
        length, _ = worker.unpack_head(head)
        order: worker.Message = json.loads(channel.recv(length, socket.MSG_WAITALL))
    except (struct.error, OSError):
        raise EOFError from None
    return order


def _reap(worker_pid: int) -> int:
    """Wait for every process of the box; return the worker's status."""
    status = 0
    while True:
        try:
            pid, code = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if pid == worker_pid:
            status = code

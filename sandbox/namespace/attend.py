"""Process 1 while the worker runs: drain its answer, and end it when time, memory or the engine say so."""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass

from sandbox import worker
from sandbox.namespace.confine import Worker
from sandbox.namespace.watch import TreeWatch, Used

_FIRST_LOOK_S, _LAST_PAUSE_S, _RESTING_PAUSE_S = 0.01, 0.05, 0.4


@dataclass(frozen=True)
class Ended:
    """How the worker ended, and what the box had used by then.

    reason: why we ended it; "" when it answered or left by itself. status: as waitpid gives it, 0 with an answer.
    """

    reason: str
    status: int
    answer: bytes
    used: Used


def attend(running: Worker, channel: socket.socket, wall_s: float, watch: TreeWatch, *, patient: bool = False) -> Ended:
    """Until the worker and everything it started are killed, or stopped for good. Raises EOFError: the engine is gone.

    A worker that has answered and was alone is only stopped, and dies with this process: its end would take the
    processor from who waits for the answer.
    patient: look less often while it rests: such a job may do nothing for hours.
    """
    said = bytearray()
    reason = _wait(running, channel, time.monotonic() + wall_s, watch, said, patient=patient)
    used = watch.used_alone(running.pid) if not reason and _complete(said) else None
    with contextlib.suppress(ProcessLookupError):  # everything in the box but us: daemons of the job end with it
        os.kill(-1, signal.SIGKILL if used is None else signal.SIGSTOP)
    if used is not None:
        return Ended("", 0, bytes(said), used)
    answered = _complete(said)
    status = _reap(running.pid)
    _drain(running.result, said)
    return Ended(reason, 0 if answered and not reason else status, bytes(said), watch.used_by_all())


def rehearse(watch: TreeWatch, limits: worker.Message, worker_pid: int) -> Ended:
    """An end as most jobs have it, for a worker that has not begun."""
    watch.begin(limits, worker_pid)
    said = worker.pack({"end": "ok", "exit_code": 0, "value": [1, "a", None]})
    ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        worker.write_all(theirs, said)
        poller = select.poll()
        poller.register(ours, select.POLLIN)
        poller.poll(0)
        into = bytearray()
        _drain(ours, into)
        _complete(into)
        os.close(os.pidfd_open(worker_pid))
    finally:
        os.close(ours)
        os.close(theirs)
    return Ended("", 0, bytes(into), watch.used_alone(worker_pid) or Used(0.0, 0))


def _wait(
    running: Worker, channel: socket.socket, deadline: float, watch: TreeWatch, said: bytearray, *, patient: bool
) -> str:
    """Until the worker has answered or left (""), or must be ended for the reason returned."""
    exited = os.pidfd_open(running.pid)
    poller = select.poll()
    for descriptor in (exited, running.result, channel.fileno()):
        poller.register(descriptor, select.POLLIN)
    reason, pause = "", _FIRST_LOOK_S
    while not reason:
        left = deadline - time.monotonic()
        events = dict(poller.poll(max(0.0, min(pause, left)) * 1000))
        if running.result in events and not _drain(running.result, said):
            poller.unregister(running.result)
        if exited in events or _complete(said):
            break
        if channel.fileno() in events:
            reason = _obey(_order(channel), running.pid, channel)
        elif left <= 0:
            reason = "timeout"
        elif not events:
            reason = watch.exceeded()
            pause = min(_RESTING_PAUSE_S if patient and watch.resting else _LAST_PAUSE_S, pause * 2)
    return reason


def _complete(said: bytearray) -> bool:
    size = worker.HEADER.size
    return len(said) >= size and len(said) >= size + sum(worker.unpack_head(bytes(said[:size])))


def _drain(descriptor: int, into: bytearray) -> bool:
    """Read what is there; False at the end of the stream."""
    limit = worker.MAX_VALUE_BYTES + (1 << 16)
    while True:
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        if len(into) < limit:
            into += data


def _obey(order: worker.Message, worker_pid: int, channel: socket.socket) -> str:
    """A reason to end the job, or "" where it is only sent a signal, which goes to the whole group of the worker.

    That it was sent is answered: what is asked of the job later must not be hit by it.
    """
    if "signal" in order:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker_pid, order["signal"])
        channel.sendall(worker.pack({"kind": "signalled"}))
        return ""
    return str(order["stop"])


def _order(channel: socket.socket) -> worker.Message:
    """What the engine wants of a running job. The end of the stream: nobody waits any more."""
    try:
        head = channel.recv(worker.HEADER.size, socket.MSG_WAITALL)
        length, _ = worker.unpack_head(head)
        order: worker.Message = json.loads(channel.recv(length, socket.MSG_WAITALL))
    except (struct.error, OSError):
        raise EOFError from None
    return order


def _reap(worker_pid: int) -> int:
    """Wait for every process of the box; the worker's status."""
    status = 0
    while True:
        try:
            pid, code = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if pid == worker_pid:
            status = code

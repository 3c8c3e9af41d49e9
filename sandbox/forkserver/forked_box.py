"""`ForkedBox`: what the engine holds of a box that waits for its job."""

import asyncio
import os
import signal
import socket
from collections import deque
from dataclasses import dataclass, field

from sandbox.forkserver.ready_size import ReadySize


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """How the worker of a direct box ended.

    Attributes:
        status: The exit status, in the form that waitpid returns.
        cpu_s: CPU time of the worker and of the children it waited for, in seconds.
        peak_bytes: Peak memory of the largest of them.
    """

    status: int
    cpu_s: float
    peak_bytes: int


@dataclass(slots=True)
class DirectEnds:
    """What only a direct box has: its worker talks to the engine, and process 1 only takes orders.

    Attributes:
        line: The socket that is connected to process 1.
        shown: Descriptors of the box's /proc and of its tmpfs.
        ended: Has a result once the worker has ended.
    """

    line: socket.socket
    shown: tuple[int, int]
    ended: "asyncio.Future[WorkerStatus]"


@dataclass(slots=True)
class ForkedBox:
    """A forked, isolated box that waits for its job.

    Attributes:
        id: The number that the engine and the template use for the box.
        channel: The socket that is connected to process 1, or, in a direct box, to the worker.
        stdout: The reading end of a pipe.
        stderr: The reading end of a pipe.
        direct: What only a direct box has; None for a box whose process 1 attends the job.
        gone: Set once all processes of the box have ended.
    """

    id: int
    channel: socket.socket
    stdout: int
    stderr: int
    direct: DirectEnds | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def lose(self) -> None:
        """Note that all processes of the box have ended."""
        self.gone.set()
        if self.direct is not None and not self.direct.ended.done():  # the template ended before it could tell how
            self.direct.ended.set_result(WorkerStatus(signal.SIGKILL, 0.0, 0))

    def close(self) -> None:
        self.channel.close()
        shown: tuple[int, ...] = ()
        if self.direct is not None:
            self.direct.line.close()
            shown = self.direct.shown
        for descriptor in (self.stdout, self.stderr, *shown):
            os.close(descriptor)


@dataclass(slots=True)
class BoxPool:
    """The boxes of one kind that a template has forked, and the requests for them.

    Attributes:
        size: How many boxes to keep ready.
        idle: Boxes that wait for a job.
        waiting: Requests that wait for a box.
        forking: Boxes that the template was asked for and has not delivered.
        asked: When a box was last requested, on the event loop's clock.
    """

    size: ReadySize
    idle: deque[ForkedBox] = field(default_factory=deque)
    waiting: "deque[asyncio.Future[ForkedBox]]" = field(default_factory=deque)
    forking: int = 0
    asked: float = float("-inf")

    def close(self, problem: Exception) -> None:
        """Fail all requests, and close the idle boxes."""
        while self.waiting:
            self.fail_one(problem)
        for box in self.idle:
            box.close()
        self.idle.clear()

    def fail_one(self, problem: Exception) -> None:
        """Fail the request that has waited longest."""
        while self.waiting:
            future = self.waiting.popleft()
            if not future.done():
                future.set_exception(problem)
                return

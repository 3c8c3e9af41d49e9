"""`ServiceJob`: the engine's side of a job that is a server in a container. Forwards connections and signals to it.

Each such job has a thread of its own. The server's clients are therefore served while the event loop is blocked, and a
job that runs for hours does not occupy one of the threads of the Docker `Client`.
"""

import asyncio
import contextlib
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from sandbox import worker
from sandbox.contract import End, Job, Outcome
from sandbox.docker.client import Client
from sandbox.docker.container import Container
from sandbox.docker.flows import Flows
from sandbox.docker.frames import Frame, ProtocolError
from sandbox.docker.inlets import KernelSockets
from sandbox.docker.running import RunningContainerJob

_READ = 4096
_MOST = 64  # simultaneous connections
_ACCEPT_PAUSE_S = 0.05


class ServiceJob(RunningContainerJob):
    """A running server. Create the object inside a running event loop.

    `ports` are the server's loopback ports in the container, in the order of the sockets of `inlets`.
    """

    def __init__(
        self, client: Client, container: Container, job: Job, inlets: KernelSockets, ports: tuple[int, ...]
    ) -> None:
        super().__init__(client, container, job, None)
        self._loop = asyncio.get_running_loop()
        self._listening = {end.fileno(): (end, port) for end, port in zip(inlets.listening, ports, strict=True)}
        self._ended: asyncio.Future[Outcome] = self._loop.create_future()
        self._signals: deque[asyncio.Future[None]] = deque()
        self._numbers: deque[int] = deque()
        self._unconfirmed = 0
        self._woken, self._wake = socket.socketpair()
        self._stopping = False
        self._poller = select.poll()
        self._flows = Flows(self._poller, self._put_frame, metered=True)
        self._last = 0

    async def outcome(self, header: dict[str, Any], body: bytes) -> Outcome:
        """Run the server to its end. Cancelling the call ends the connections; the caller must remove the container."""
        frame = worker.pack({**header, "key": self._key}, body)
        threading.Thread(target=self._attend, args=(frame,), name="knackbox-kept", daemon=True).start()
        try:
            return await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            self._stopping = True
            self._wake_up()
            self._container.channel.end_input()  # also wakes a thread that waits for room to write
            while not self._ended.done():  # the wait is necessary even after a second cancel
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((self._ended,))
            if not self._ended.cancelled():
                self._ended.exception()  # a caller that cancels does not use the outcome
            raise
        finally:
            self._forget_signals()
            self._wake.close()

    def signal(self, number: int) -> None:
        """Ask process 1 to send a signal to the job's process group. Does nothing if the job has ended."""
        if not self._ended.done():
            self._signals.append(self._loop.create_future())
            self._numbers.append(number)
            self._wake_up()

    async def signalled(self) -> None:
        """Wait until process 1 has sent every requested signal, or has ended."""
        for signal in list(self._signals):
            await asyncio.shield(signal)

    def _attend(self, frame: bytes) -> None:
        """Run the job. This function runs in the job's own thread."""
        done: Callable[[], None]
        try:
            outcome = self._carry(frame)
        except BaseException as problem:  # noqa: BLE001  (whoever waits must get any failure)
            why = problem
            done = lambda: self._ended.set_exception(why)  # noqa: E731
        else:
            done = lambda: self._ended.set_result(outcome)  # noqa: E731
        finally:
            self._flows.close()
            self._woken.close()
        self._tell(done)

    def _carry(self, frame: bytes) -> Outcome:
        """Forward connections and signals until the job ends.

        Raises:
            NotTaken: The container ended before it accepted the job.
            SandboxError: The container failed.
        """
        channel = self._container.channel
        try:
            channel.send(frame)
            for descriptor in (channel.fileno(), self._woken.fileno(), *self._listening):
                self._poller.register(descriptor, select.POLLIN)
            while not self._stopping:
                self._flows.listen(room=True)
                events = dict(self._poller.poll())
                if self._woken.fileno() in events:
                    self._woken.recv(_READ)
                    self._send_signals()
                if channel.fileno() in events:
                    frames = channel.receive_some()
                    if frames is None:
                        break
                    if (outcome := self._process_all(frames)) is not None:
                        return outcome
                self._serve(events)
        except ProtocolError as problem:
            return self._faulty(problem)
        except OSError as problem:
            return self._broken(problem)
        if self._stopping:  # nobody uses the reason, and asking Docker for it takes a second
            return self._outcome(End.KILLED, usage={"limits_hit": []})
        return self._client.converting_errors(self._without_answer)

    def _process_all(self, frames: list[Frame]) -> Outcome | None:
        """Process the frames; return the outcome if one of them is the answer."""
        for frame in frames:
            if "flow" in frame.header:
                self._flows.take(frame)
            elif frame.header.get("signalled") and self._unconfirmed:
                self._unconfirmed -= 1
                self._tell(self._confirm)
            elif (outcome := self._process(frame)) is not None:
                return outcome
        return None

    def _serve(self, events: dict[int, int]) -> None:
        for descriptor in events:
            if descriptor in self._listening:
                self._accept(*self._listening[descriptor])
            elif self._flows.carries(descriptor):
                self._flows.move(descriptor)

    def _accept(self, listening: socket.socket, port: int) -> None:
        try:
            end, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError:  # most likely no descriptors are left: the socket would be reported again at once
            time.sleep(_ACCEPT_PAUSE_S)
            return
        if len(self._flows) >= _MOST:
            end.close()
            return
        self._last += 1
        self._flows.begin(self._last)
        self._put_frame({"flow": self._last, "port": port}, b"")
        self._flows.connect(self._last, end)

    def _send_signals(self) -> None:
        while self._numbers:
            self._put_frame({"signal": self._numbers.popleft()}, b"")
            self._unconfirmed += 1

    def _put_frame(self, header: dict[str, Any], body: bytes) -> None:
        """Send a frame. A failure is ignored: the container is gone, and reading from it returns its last message."""
        with contextlib.suppress(OSError):
            self._container.channel.send(worker.pack(header, body))

    def _wake_up(self) -> None:
        with contextlib.suppress(OSError):  # the thread has ended, or has wake-ups pending already
            self._wake.send(b"\0", socket.MSG_DONTWAIT)

    def _tell(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody is waiting any more
            self._loop.call_soon_threadsafe(callback)

    def _confirm(self) -> None:
        if self._signals:
            self._signals.popleft().set_result(None)

    def _forget_signals(self) -> None:
        while self._signals:
            self._signals.popleft().set_result(None)

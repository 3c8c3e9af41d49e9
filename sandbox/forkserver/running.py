"""`ForkedJob`: the engine's side of one job in one forked box.

It sends the job, reads the job's output and waits for the box's answer.
"""

import asyncio
import functools
import json
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sandbox import worker
from sandbox.contract import End, Job, OnOutput, Outcome, SandboxError, Stream
from sandbox.forkserver import outcomes
from sandbox.forkserver.forked_box import ForkedBox
from sandbox.forkserver.output_reader import OutputReader
from sandbox.nodes import MAX_NODES, too_many_nodes

_READ = 1 << 16
_DECODED_AT_ONCE = 16 << 10  # bytes; a longer header, which only an answer can have, is decoded in a thread
_MAX_OUTLETS = 64  # sockets one message of the box may carry


def _decoded(text: bytes) -> dict[str, Any]:
    """Decode the header of an answer.

    Raises:
        SandboxError: The header has more values than a worker would send.
    """
    if too_many_nodes(text, 2 * MAX_NODES):  # twice the worker's own limit leaves room for the other fields
        raise SandboxError("The box's answer has too many JSON values.", may_have_started=True)
    said: dict[str, Any] = json.loads(text)
    return said


class RunningJob(Protocol):
    """One job in one box, as a backend uses it."""

    job: Job

    async def send(self, header: dict[str, Any], body: bytes, tree: int) -> None: ...

    async def outcome(self) -> Outcome: ...

    def limit(self, backstop: asyncio.Timeout) -> None: ...

    def close(self) -> None: ...


class ForkedJob:
    """One job in a box that is used once. Create it inside a running event loop, and always close it."""

    def __init__(
        self,
        box: ForkedBox,
        job: Job,
        on_output: OnOutput | None,
        on_outlets: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        """Start reading the output of the box.

        Args:
            box: The box, which has not received a job.
            job: The job.
            on_output: Called with the output as it arrives.
            on_outlets: Called with the descriptors of the sockets that listen in the box, if the job has egress.
        """
        self._loop = asyncio.get_running_loop()
        self._box = box
        self.job = job
        self._on_outlets = on_outlets
        pipes: dict[Stream, int] = {"stdout": box.stdout, "stderr": box.stderr}
        too_much = functools.partial(self.stop, End.OUTPUT)
        self._output = OutputReader(pipes, job.limits, on_output, too_much, self._fail)
        self._frame = bytearray()
        self._answer: asyncio.Future[tuple[bytes, bytes] | None] = self._loop.create_future()
        self._signals: deque[asyncio.Future[None]] = deque()
        self._started = self._loop.time()
        self._backstop: asyncio.Timeout | None = None
        self._left_s: float | None = None  # seconds until the backstop, while the clock is stopped
        self.sent = False

    async def send(self, header: dict[str, Any], body: bytes, tree: int) -> None:
        """Send the job to the box. `tree` is the descriptor of the workspace's mount; -1 if there is none."""
        frame = worker.pack(header, body)
        channel = self._box.channel
        self._started = self._loop.time()
        try:
            done = socket.send_fds(channel, [frame], [tree]) if tree >= 0 else channel.send(frame)
            self.sent = True
            if done < len(frame):
                await self._loop.sock_sendall(channel, memoryview(frame)[done:])
        except OSError as problem:
            raise SandboxError(f"The box ended before it received its job: {problem}.") from None
        self._loop.add_reader(channel.fileno(), self._on_readable)
        self._output.start()

    async def outcome(self) -> Outcome:
        """Wait for the end of the job. If `on_output` raised an exception, this method raises it too.

        Raises:
            SandboxError: The box itself failed.
        """
        answer = await self._answer
        wall = self._loop.time() - self._started
        # When the box answers, all of its output is in the pipes, which hold 64 KiB each.
        self._output.read_rest()
        if answer is None:
            return outcomes.without_answer(self._output, wall)
        text, body = answer
        if len(text) > _DECODED_AT_ONCE:  # decoding may take a while
            said = await asyncio.to_thread(_decoded, text)
        else:
            said = json.loads(text)
        if said.get("kind") == "failed":
            raise SandboxError(f"The box could not run the job: {said['why']}.", may_have_started=said["started"])
        return outcomes.with_answer(said, body, self._output, wall)

    def stop(self, reason: str) -> None:
        """Ask the box to end the job for this reason, a member of `End`. The box still sends its answer."""
        self._order({"stop": reason})

    def signal(self, number: int) -> None:
        """Ask the box to send this signal to the job's process group."""
        if self.sent and not self._answer.done():
            self._signals.append(self._loop.create_future())
            self._order({"signal": number})

    def limit(self, backstop: asyncio.Timeout) -> None:
        """Set the timeout that ends the job if its box does not. `pause` stops it, too."""
        self._backstop = backstop

    def pause(self) -> None:
        """Stop the job's wall clock. Its processes go on, and all other limits apply."""
        when = self._backstop.when() if self._backstop is not None else None
        if self._backstop is not None and when is not None:
            self._left_s = when - self._loop.time()
            self._backstop.reschedule(None)
            self._order({"paused": True})

    def resume(self) -> None:
        """Let the job's wall clock go on."""
        if self._backstop is not None and self._left_s is not None:
            self._backstop.reschedule(self._loop.time() + self._left_s)
            self._left_s = None
            self._order({"paused": False})

    async def signalled(self) -> None:
        """Wait until the box has sent every requested signal, or has ended."""
        for signal in list(self._signals):
            await asyncio.shield(signal)

    def _order(self, order: dict[str, Any]) -> None:
        if self.sent and not self._answer.done():
            try:
                self._box.channel.send(worker.pack(order))
            except OSError:  # the box is already ending
                return

    def close(self) -> None:
        if self._signals:
            self._forget_signals()
        if self._box.channel.fileno() >= 0:
            self._loop.remove_reader(self._box.channel.fileno())
            self._output.stop()
        self._box.close()

    def _on_readable(self) -> None:
        try:
            data = self._box.channel.recv(_READ) if self._on_outlets is None else self._receive(self._on_outlets)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        except SandboxError as problem:
            self._fail(problem)
            return
        self._frame += data
        if not data:
            self._finish(None)
            return
        while (start := worker.HEADER.size) <= len(self._frame):
            head, body = worker.unpack_head(bytes(self._frame[:start]))
            if len(self._frame) < start + head + body:
                return
            text = bytes(memoryview(self._frame)[start : start + head])
            kind = json.loads(text).get("kind") if head <= _DECODED_AT_ONCE else None
            if kind == "signalled":
                self._signals.popleft().set_result(None)
            elif kind != "outlets":
                self._finish((text, bytes(memoryview(self._frame)[start + head :])))
                return
            del self._frame[: start + head]  # the sockets arrived with their frame

    def _receive(self, on_outlets: Callable[[Sequence[int]], None]) -> bytes:
        """Receive bytes from the box, and pass the sockets that arrive with them to `on_outlets`.

        Raises:
            OSError: The connection to the box is lost.
            SandboxError: `on_outlets` rejected the sockets.
        """
        data, outlets, _, _ = socket.recv_fds(self._box.channel, _READ, _MAX_OUTLETS, socket.MSG_CMSG_CLOEXEC)
        if outlets:
            on_outlets(outlets)
        return data

    def _finish(self, answer: tuple[bytes, bytes] | None) -> None:
        self._loop.remove_reader(self._box.channel.fileno())
        if self._signals:
            self._forget_signals()
        if not self._answer.done():
            self._answer.set_result(answer)

    def _fail(self, problem: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(problem)

    def _forget_signals(self) -> None:
        while self._signals:
            self._signals.popleft().set_result(None)

"""`KernelClient`: runs cells in a kernel, one at a time, through one Jupyter client."""

import asyncio
import sys
from queue import Empty
from typing import Any, Self

import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient

from sandbox.bridge.bridge import Answer
from sandbox.contract import End, SandboxError
from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.outputs import OnStream, Outputs
from sandbox.kernels.spec import Cell, CellLimits, KernelDied, StateLoss

_ASK_AGAIN_S = 0.1
_READY_S = 30.0
_REHEARSAL = "print(end='')\n[str(each) for each in ({}, '', 1.5)]"
_ON_ITS_WAY = 16 << 20  # bytes that may be printed before an interrupt arrives: a loop prints 50 MB per second
_INTERRUPTS = 2  # an interrupt that arrives while ipykernel runs its own code is lost
# A cell's reply is sent before the message that the cell has ended, on another channel. A reply that has not arrived
# this long after that message was never sent, for example because ipykernel was interrupted before it sent the reply.
_REPLY_AFTER_S = 5.0
_NO_REPLY = {"status": "error", "ename": "KeyboardInterrupt", "evalue": "interrupted before its reply was sent"}
# The exceptions that reading raises for a malformed or unsigned message. Code in the box can send anything.
_NO_MESSAGE = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)


class KernelClient:
    """A client of one kernel. Create it in the kernel's loop; always end or close it."""

    def __init__(self, kernel: BoxedKernel, context: "zmq.asyncio.Context") -> None:
        self.kernel = kernel
        self._request = ""  # the id of the last request; "" once it is known to have ended
        self._client = AsyncKernelClient(context=context)
        self._client.load_connection_info(kernel.connection)
        # The box shows whether the kernel is alive, more reliably than a heartbeat, which would need a thread.
        self._client.start_channels(stdin=False, hb=False)

    @classmethod
    async def with_ready(cls, kernel: BoxedKernel, context: "zmq.asyncio.Context") -> Self:
        """Create a client, and return it once both channels work: the one for replies and the one for outputs.

        Raises:
            KernelDied: The kernel ended, or did not reply in time.
        """
        client = cls(kernel, context)
        ready = asyncio.ensure_future(client._greet())
        try:
            await asyncio.wait((ready, kernel.ended), timeout=_READY_S, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                ready.result()
                return client
        except BaseException:
            client.close()
            raise
        finally:
            ready.cancel()
        client.close()
        raise KernelDied(kernel.why or f"no answer in {_READY_S:g} s")

    def close(self) -> None:
        """Close the connections to the kernel, which keeps running."""
        self._client.stop_channels()

    async def end(self) -> None:
        """End the kernel. Steps that do not wait come first, so that they are done even if the call is cancelled."""
        self.close()
        self.kernel.forget()
        await self.kernel.kill()

    async def rehearse(self) -> None:
        """Run a cell without lasting effects, so that everything is imported and loaded before the first real cell."""
        request = self._client.execute(_REHEARSAL, silent=True, store_history=False, allow_stdin=False)
        reply = asyncio.ensure_future(self._reply(request))
        await asyncio.wait((reply, self.kernel.ended), timeout=_READY_S, return_when=asyncio.FIRST_COMPLETED)
        reply.cancel()

    async def run(
        self, code: str, limits: CellLimits, on_stream: OnStream | None = None, answer: Answer | None = None
    ) -> Cell:
        """Run one cell to its end. On a timeout the cell is interrupted; if it continues, the kernel is killed.

        `answer` answers what the kernel asks over its bridge while the cell runs.

        Cancelling the call interrupts the cell without waiting for its end. `wait_for_end` and the next cell wait for
        the end.
        """
        loop = asyncio.get_running_loop()
        await self._end_cancelled(limits.grace_s)
        started = loop.time()
        outputs = Outputs(limits.kept_bytes, on_stream)
        await self.kernel.signalled()
        end = End.OK
        try:
            async with self.kernel.bridge.serving(answer):
                request = self._request = self._client.execute(code, allow_stdin=False, stop_on_error=False)
                reply = await self._until_idle(request, outputs, limits.output_bytes, limits.wall_s)
            if reply is None and self.kernel.alive:
                end = End.OUTPUT if outputs.seen > limits.output_bytes else End.TIMEOUT
                for _ in range(_INTERRUPTS):
                    self.kernel.interrupt()
                    # Output printed before the interrupt is still in transit; only a cell that continues to print
                    # exceeds this limit.
                    most = limits.output_bytes + max(limits.output_bytes, _ON_ITS_WAY)
                    reply = await self._until_idle(request, outputs, most, limits.grace_s / _INTERRUPTS)
                    if reply is not None or not self.kernel.alive:
                        break
        except BaseException:
            self.kernel.interrupt()
            raise
        if reply is None:
            if self.kernel.alive:
                await self.kernel.kill()
            elif end is End.OK:
                end = _end_of(self.kernel)
            loss = StateLoss((f"the kernel ended ({self.kernel.why})",), in_cell=True)
            return outputs.cell(end, wall_s=loop.time() - started, state_lost=loss)
        if reply.get("status") == "error" and outputs.error is None:
            outputs.take("error", reply)  # the message with the error was lost or malformed
        if end is End.OK and outputs.error is not None:
            end = End.ERROR
        return outputs.cell(end, reply.get("execution_count"), wall_s=loop.time() - started)

    async def ask(self, expression: str, wall_s: float) -> Any:
        """Evaluate an expression and return its value's `application/json` form; None if the value has none.

        The evaluation does not count as a cell: it prints nothing and leaves the history unchanged. It is interrupted
        after `wall_s` seconds.

        Raises:
            SandboxError: There was no reply, even after the interrupt.
        """
        await self.kernel.signalled()
        request = self._request = self._client.execute(
            "", silent=True, store_history=False, user_expressions={"it": expression}, allow_stdin=False
        )
        try:
            reply = await self._until_idle(request, Outputs(0), sys.maxsize, wall_s)
            if reply is None and self.kernel.alive:
                self.kernel.interrupt()
                reply = await self._until_idle(request, Outputs(0), sys.maxsize, wall_s)
        except BaseException:
            self.kernel.interrupt()
            raise
        if reply is None:
            raise SandboxError("The kernel did not answer in time." if self.kernel.alive else "The kernel has ended.")
        found: Any = reply
        for key in ("user_expressions", "it", "data", "application/json"):
            found = found.get(key) if isinstance(found, dict) else None
        return found

    async def wait_for_end(self, grace_s: float) -> bool:
        """Wait for the end of the last request, with another interrupt if necessary; return whether it has ended."""
        for _ in range(_INTERRUPTS):
            if not self._request:
                return True
            reply = await self._until_idle(self._request, Outputs(0), sys.maxsize, grace_s / _INTERRUPTS)
            if reply is not None or not self.kernel.alive:
                return reply is not None
            self.kernel.interrupt()
        return False

    async def _end_cancelled(self, grace_s: float) -> None:
        """End a cancelled request whose interrupt was lost, because it would use up the time of the next request."""
        if not await self.wait_for_end(grace_s):
            await self.kernel.kill()

    async def _until_idle(self, request: str, outputs: Outputs, most: int, wait_s: float) -> dict[str, Any] | None:
        """Return the reply's content once all outputs have arrived.

        Return None after `wait_s` seconds, after more than `most` bytes of output, or if the kernel ends.
        """
        reading = asyncio.ensure_future(self._read(request, outputs, most))
        try:
            await self._first_of(reading, wait_s)
            if reading.done():
                return reading.result()
            ended = self.kernel.alive and not self._request  # the cell has ended, and only its reply is missing
            return dict(_NO_REPLY) if ended else None
        except _NO_MESSAGE:
            # Later messages may be malformed as well, so the kernel's messages are no longer reliable.
            await self.kernel.kill()
            return None
        finally:
            reading.cancel()

    async def _first_of(self, reading: "asyncio.Future[Any]", wait_s: float) -> None:
        """Wait for the future, the kernel's end or `wait_s` seconds. Time in which the bridge is paused is extra."""
        bridge, loop = self.kernel.bridge, asyncio.get_running_loop()
        end = loop.time() + wait_s - bridge.paused_s
        left = wait_s
        while left > 0 and not reading.done() and self.kernel.alive:
            await asyncio.wait((reading, self.kernel.ended), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            left = end + bridge.paused_s - loop.time()

    async def _read(self, request: str, outputs: Outputs, most: int) -> dict[str, Any] | None:
        while True:
            message = await self._client.get_iopub_msg()
            if message["parent_header"].get("msg_id") != request:
                continue  # the message belongs to a cell that was abandoned
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "status" and content.get("execution_state") == "idle":
                self._request = ""
                break
            outputs.take(kind, content)
            if outputs.seen > most:
                return None
        try:
            return await asyncio.wait_for(self._reply(request), _REPLY_AFTER_S)
        except TimeoutError:
            return dict(_NO_REPLY)

    async def _reply(self, request: str) -> dict[str, Any]:
        while True:
            reply = await self._client.get_shell_msg()
            if reply["parent_header"].get("msg_id") == request:
                content = reply["content"]
                return content if isinstance(content, dict) else {}

    async def _greet(self) -> None:
        """Send requests until a reply and an output arrive: the kernel drops outputs until it has our subscription."""
        while True:
            self._client.kernel_info()
            await self._client.get_shell_msg()
            try:
                await self._client.get_iopub_msg(timeout=_ASK_AGAIN_S)
            except Empty:
                continue
            return


def _end_of(kernel: BoxedKernel) -> End:
    if kernel.ended.cancelled() or kernel.ended.exception() is not None:
        return End.KILLED
    found = kernel.ended.result().end
    return End.ERROR if found is End.OK else found  # the kernel exited normally in the middle of a cell

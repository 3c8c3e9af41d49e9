"""`Talk`: runs cells in a kernel, one at a time, through one client of its sockets."""

import asyncio
import sys
from queue import Empty
from typing import Any, Self

import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient

from sandbox.contract import End, SandboxError
from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.outputs import OnStream, Outputs
from sandbox.kernels.spec import Cell, CellLimits, KernelDied

_ASK_AGAIN_S = 0.1
_READY_S = 30.0
_REHEARSAL = "print(end='')\n[str(each) for each in ({}, '', 1.5)]"
_ON_ITS_WAY = 16 << 20  # bytes of output an interrupt may take to arrive: a printing loop makes 50 MB per second
_INTERRUPTS = 2  # one that arrives while ipykernel runs its own code is lost
# A reply is sent before the message that a cell has ended, on another channel. One that has not arrived by then was
# never sent, as when an interrupt hits ipykernel between the two.
_REPLY_AFTER_S = 5.0
_NO_REPLY = {"status": "error", "ename": "KeyboardInterrupt", "evalue": "interrupted before its reply was sent"}
# What reading raises for a malformed or unsigned message: code in the box can send anything.
_NO_MESSAGE = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)


class Talk:
    """A client of one kernel. Create it in the kernel's loop; always close it."""

    def __init__(self, kernel: BoxedKernel, context: "zmq.asyncio.Context") -> None:
        self._kernel = kernel
        self._request = ""  # the last request not known to have ended
        self._client = AsyncKernelClient(context=context)
        self._client.load_connection_info(kernel.connection)
        # The box shows whether it is alive, more reliably than a heartbeat, which would need a thread.
        self._client.start_channels(stdin=False, hb=False)

    @classmethod
    async def with_ready(cls, kernel: BoxedKernel, context: "zmq.asyncio.Context") -> Self:
        """Create it once the kernel has replied and its outputs arrive. Raises KernelDied."""
        talk = cls(kernel, context)
        ready = asyncio.ensure_future(talk._greet())
        try:
            await asyncio.wait((ready, kernel.ended), timeout=_READY_S, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                ready.result()
                return talk
        except BaseException:
            talk.close()
            raise
        finally:
            ready.cancel()
        talk.close()
        raise KernelDied(kernel.why or f"no answer in {_READY_S:g} s")

    def close(self) -> None:
        self._client.stop_channels()

    async def rehearse(self) -> None:
        """Run a cell that leaves nothing behind, so that the first real one finds everything imported and loaded."""
        request = self._client.execute(_REHEARSAL, silent=True, store_history=False, allow_stdin=False)
        reply = asyncio.ensure_future(self._reply(request))
        await asyncio.wait((reply, self._kernel.ended), timeout=_READY_S, return_when=asyncio.FIRST_COMPLETED)
        reply.cancel()

    async def run(self, code: str, limits: CellLimits, on_stream: OnStream | None = None) -> Cell:
        """Run one cell to its end. A timeout first interrupts it, and kills the kernel when that does not help.

        Cancelling this interrupts the cell and does not wait for it; `settled` does.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        outputs = Outputs(limits.kept_bytes, on_stream)
        await self._kernel.signalled()
        request = self._request = self._client.execute(code, allow_stdin=False, stop_on_error=False)
        end = End.OK
        try:
            reply = await self._until_idle(request, outputs, limits.output_bytes, limits.wall_s)
            if reply is None and self._kernel.alive:
                end = End.OUTPUT if outputs.seen > limits.output_bytes else End.TIMEOUT
                for _ in range(_INTERRUPTS):
                    self._kernel.interrupt()
                    # Its output until then is in transit; only a cell that continues to print produces as much again.
                    most = limits.output_bytes + max(limits.output_bytes, _ON_ITS_WAY)
                    reply = await self._until_idle(request, outputs, most, limits.grace_s / _INTERRUPTS)
                    if reply is not None or not self._kernel.alive:
                        break
        except BaseException:
            self._kernel.interrupt()
            raise
        if reply is None:
            if self._kernel.alive:
                await self._kernel.kill()
            elif end is End.OK:
                end = _end_of(self._kernel)
            return _cell(end, outputs, None, loop.time() - started, lost=True, why=self._kernel.why)
        if reply.get("status") == "error" and outputs.error is None:
            outputs.take("error", reply)  # its message was lost, or was not an error's
        if end is End.OK and outputs.error is not None:
            end = End.ERROR
        return _cell(end, outputs, reply.get("execution_count"), loop.time() - started)

    async def ask(self, expression: str, wall_s: float) -> Any:
        """Return the JSON that the value of an expression displays; None when it displays none.

        It is not a cell: nothing is printed, counted or kept in the history. Interrupted after `wall_s`. Raises
        SandboxError when there is no reply even then.
        """
        await self._kernel.signalled()
        request = self._request = self._client.execute(
            "", silent=True, store_history=False, user_expressions={"it": expression}, allow_stdin=False
        )
        try:
            reply = await self._until_idle(request, Outputs(0), sys.maxsize, wall_s)
            if reply is None and self._kernel.alive:
                self._kernel.interrupt()
                reply = await self._until_idle(request, Outputs(0), sys.maxsize, wall_s)
        except BaseException:
            self._kernel.interrupt()
            raise
        if reply is None:
            raise SandboxError("The kernel did not answer in time." if self._kernel.alive else "The kernel has ended.")
        found: Any = reply
        for key in ("user_expressions", "it", "data", "application/json"):
            found = found.get(key) if isinstance(found, dict) else None
        return found

    async def settled(self, grace_s: float) -> bool:
        """Whether the last request has ended, after another interrupt if necessary."""
        for _ in range(_INTERRUPTS):
            if not self._request:
                return True
            reply = await self._until_idle(self._request, Outputs(0), sys.maxsize, grace_s / _INTERRUPTS)
            if reply is not None or not self._kernel.alive:
                return reply is not None
            self._kernel.interrupt()
        return False

    async def _until_idle(self, request: str, outputs: Outputs, most: int, wait_s: float) -> dict[str, Any] | None:
        """Return the reply's content once all outputs have arrived; None if time, limit or kernel ended first."""
        reading = asyncio.ensure_future(self._read(request, outputs, most))
        try:
            await asyncio.wait((reading, self._kernel.ended), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            ended = self._kernel.alive and not self._request  # the cell, of which only the reply is missing
            return dict(_NO_REPLY) if ended else None
        except _NO_MESSAGE:
            # Later messages may be malformed as well: nothing it says can be relied on any more.
            await self._kernel.kill()
            return None
        finally:
            reading.cancel()

    async def _read(self, request: str, outputs: Outputs, most: int) -> dict[str, Any] | None:
        while True:
            message = await self._client.get_iopub_msg()
            if message["parent_header"].get("msg_id") != request:
                continue  # of a cell that was given up
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
        """Send requests until both channels have replied: messages published before a subscription arrives are lost."""
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
    return End.ERROR if found is End.OK else found  # it exited normally in the middle of a cell


def _cell(end: End, outputs: Outputs, count: object, wall_s: float, *, lost: bool = False, why: str = "") -> Cell:
    return Cell(
        end=end,
        outputs=outputs.items,
        error=outputs.error,
        count=count if type(count) is int else None,
        dropped_bytes=outputs.dropped,
        wall_s=wall_s,
        state_lost=f"the kernel ended ({why})" if lost else "",
    )

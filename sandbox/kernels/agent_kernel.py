"""`AgentKernel`: one named kernel of an agent, and everything about it that outlives its process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from sandbox.bridge.bridge import Answer
from sandbox.contract import SandboxError
from sandbox.kernels.cell_history import CellHistory
from sandbox.kernels.kernel_client import KernelClient
from sandbox.kernels.memory import memory_of
from sandbox.kernels.outputs import OnStream
from sandbox.kernels.spec import Cell, CellLimits, KernelOwner, KernelSpec, NoKernel, Occupied, StateLoss


@dataclass(slots=True, eq=False)
class AgentKernel:
    """A kernel of one agent: its process, the history of its cells, and the state losses not reported yet.

    The object outlives the process: the next cell starts another process, and reports why the state of the previous
    one is gone. Each loss is reported exactly once. `KernelPool.kernel` creates the object. Use it in one event loop.

    Attributes:
        owner: The user and agent that the kernel belongs to.
        name: The name that its owner chose.
        spec: The spec from which its process is started.
        start: Starts a process for the kernel, or takes one that is ready. Raises Busy if too many kernels are in use,
            and SandboxError if the process cannot be started.
        history: The cells that have been run. A new history begins after its owner has stopped the kernel.
        state_lost: The loss that the next result reports; None if there is none.
        client: The client of its process; None while no process has been started.
        last_used: When a cell was last started or finished, in the time of the event loop.
        users: The number of cells that run or wait, plus the number of unfinished reads of its variables.
        ending: A task that waits for the end of a cell whose caller was cancelled.
        stopped: Whether its owner has stopped it since the last cell.
    """

    owner: KernelOwner
    name: str
    spec: KernelSpec
    start: "Callable[[AgentKernel], Awaitable[KernelClient]]"
    history: CellHistory = field(default_factory=CellHistory)
    state_lost: StateLoss | None = None
    client: KernelClient | None = None
    last_used: float = 0.0
    users: int = 0
    ending: asyncio.Task[None] | None = None
    stopped: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def alive(self) -> bool:
        """Whether the process of the kernel is running."""
        return self.client is not None and self.client.kernel.alive

    @property
    def idle(self) -> bool:
        """Whether no cell is running or waiting."""
        return not self.users and (self.ending is None or self.ending.done())

    @property
    def memory_bytes(self) -> int | None:
        """The resident memory of the kernel's processes, in bytes; None if unknown."""
        return memory_of(self.client.kernel.connection["ip"]) if self.client is not None else None

    async def run(self, code: str, limits: CellLimits | None = None, on_stream: OnStream | None = None) -> Cell:
        """Run a cell after the cells that are already waiting.

        Raises:
            Busy: No further kernel may be started.
            SandboxError: The cell could not be run, for a reason other than its code.
        """
        async with self.running(code, limits, on_stream) as cell:
            return cell

    @asynccontextmanager
    async def running(
        self,
        code: str,
        limits: CellLimits | None = None,
        on_stream: OnStream | None = None,
        answer: Answer | None = None,
    ) -> AsyncIterator[Cell]:
        """Run a cell like `run`, for a caller that has more to do before it delivers the result.

        If the block ends with an exception, the result was not delivered, so the state loss that this cell reports is
        reported again by the next cell. `on_stream` is called with printed output as it arrives, and `answer` answers
        what the kernel asks over its bridge while the cell runs.
        """
        if self.stopped:
            self.history, self.stopped = CellHistory(), False
        history = self.history
        record = history.begin(code)
        undelivered = None
        self.users += 1
        try:
            async with self.turn:
                cell = await self._run(code, limits or CellLimits(), on_stream, answer)
                # Nothing is awaited between this and the caller's block, or after the block, so delivery is atomic.
                undelivered, self.state_lost = self.state_lost, None
            cell = replace(cell, number=record.number, state_lost=undelivered)
            history.end(record, cell)
            yield cell
            undelivered = None
        except BaseException as error:
            if record.cell is None and isinstance(error, SandboxError):
                history.forget(record)  # the cell did not run
            else:
                record.cancelled = record.cell is None
            raise
        finally:
            if undelivered is not None:
                self.report_again(undelivered)
            self.users -= 1
            self.last_used = asyncio.get_running_loop().time()

    def report_again(self, loss: StateLoss) -> None:
        """Report a cell's `state_lost` with the next result, because the cell's own result was not delivered."""
        later = self.state_lost.reasons if self.state_lost is not None else ()
        self.state_lost = StateLoss(loss.reasons + later)

    def lose(self, loss: StateLoss) -> None:
        """Record that the state is gone, so that the next result reports it."""
        earlier = self.state_lost.reasons if self.state_lost is not None else ()
        self.state_lost = replace(loss, reasons=earlier + loss.reasons)

    async def ask(self, expression: str, wall_s: float) -> Any:
        """Evaluate an expression while no cell runs, and return the JSON of its value (see `KernelClient.ask`).

        The expression comes from Knackbox, not from the agent. Its evaluation does not count as a cell: it reports no
        state loss and leaves `last_used` unchanged.

        Raises:
            Occupied: A cell is running or waiting.
            NoKernel: The kernel's process has ended.
            SandboxError: The kernel did not reply.
        """
        client = self.client
        if client is None or not client.kernel.alive:
            raise NoKernel(f"The kernel {self.name!r} has ended; the next cell starts a new one.")
        if not self.idle or self.turn.locked():
            raise Occupied(f"A cell is running in the kernel {self.name!r}.")
        self.users += 1
        try:
            async with self.turn:
                return await client.ask(expression, wall_s)
        except BaseException:
            self._end_cell_later(client, wall_s)
            raise
        finally:
            self.users -= 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock of the running cell within the block."""
        with nullcontext() if self.client is None else self.client.kernel.bridge.paused():
            yield

    def interrupt(self) -> None:
        """Interrupt the running cell, as Ctrl-C would."""
        if self.client is not None:
            self.client.kernel.interrupt()

    async def stop(self, reason: str = "") -> None:
        """End the process, even while a cell runs in it.

        Args:
            reason: Why the state is lost, as the owner's next cell reports it. "" if the owner itself stops the
                kernel: then only cells that are running or waiting report that the state is lost.
        """
        if reason:
            self.lose(StateLoss((reason,)))
        else:
            self.stopped = True
        if self.users and self.client is not None:  # the results of the running and waiting cells report the loss
            await self.client.kernel.kill()
            return
        if not reason:
            self.state_lost = None
        await self.end_process()

    async def end_process(self) -> None:
        """End the process of the kernel, if there is one."""
        client, self.client = self.client, None
        if client is not None:
            await client.end()

    async def _run(self, code: str, limits: CellLimits, on_stream: OnStream | None, answer: Answer | None) -> Cell:
        if self.ending is not None:
            await asyncio.wait((self.ending,))  # if the task failed, the next cell raises the error
        if self.client is not None and not self.client.kernel.alive:
            self.lose(StateLoss((f"the kernel ended ({self.client.kernel.why})",)))
            await self.end_process()
        client = self.client = self.client or await self.start(self)
        self.last_used = asyncio.get_running_loop().time()
        try:
            cell = await client.run(code, limits, on_stream, answer)
        except BaseException:
            self._end_cell_later(client, limits.grace_s)
            raise
        if cell.state_lost is not None:
            self.lose(cell.state_lost)
            await self.end_process()
        return cell

    def _end_cell_later(self, client: KernelClient, grace_s: float) -> None:
        self.ending = asyncio.ensure_future(self._end_cell(client, grace_s))

    async def _end_cell(self, client: KernelClient, grace_s: float) -> None:
        """Make sure that a cell whose caller was cancelled ends. If necessary, end the kernel's process."""
        if await client.wait_for_end(grace_s) or not client.kernel.alive or self.client is not client:
            return
        self.lose(StateLoss(("a cancelled cell did not stop when it was interrupted",)))
        await self.end_process()

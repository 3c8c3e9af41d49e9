"""Tracks running calls, cancels them by id, and enforces their deadlines with one shared timer."""

import asyncio
import contextlib
import math
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from engine.contract.context import CallContext, Clock
from engine.contract.guard import GuardRequest
from engine.contract.result import ToolCall
from engine.contract.spec import ToolSpec
from engine.dispatch.plan import CallPlan

_ID_BYTES = 8
_IDS_AT_ONCE = 256
_POLL_S = 0.005  # poll interval while a closing engine waits for cancelled calls

BeforeRun = Callable[[ToolSpec], Awaitable[None]]  # awaited when a call of the tool is about to run


class CallIds:
    """Generates call ids: 64 random bits in hexadecimal.

    Random bytes are read in blocks, because each read releases the GIL, and getting the GIL back from the thread that
    writes the audit takes longer than the rest of a call. Use each instance in one event loop.
    """

    def __init__(self) -> None:
        self._drawn: list[str] = []

    def __call__(self) -> str:
        if not self._drawn:
            block = secrets.token_hex(_ID_BYTES * _IDS_AT_ONCE)
            width = 2 * _ID_BYTES
            self._drawn = [block[at : at + width] for at in range(0, len(block), width)]
        return self._drawn.pop()


class Stop(StrEnum):
    """The reason why the engine stops a call. No member applies if other code cancels the waiting task."""

    KILLED = "killed"  # by `Pipeline.cancel`
    DEADLINE = "deadline"


@dataclass(slots=True, eq=False)
class InFlightCall:
    """One call in flight. It is mutable, because the stages of the pipeline fill it in.

    Attributes:
        name: The requested name, which may be an alias.
        cancelling: The waiting task's `cancelling()` count when the call began.
        ts, t0: Start time on the wall clock (ISO 8601) and on the monotonic clock.
        deadline: When the call runs out of time, on the event loop's clock. Infinite before and after the tool runs.
        stopping: Why the engine has cancelled the task; None if it has not, or after `uncancel`.
        out_of_time: Whether the deadline has passed.
        started: Whether the tool was started.
        settled: Whether the tool has finished, so that the call can no longer be cancelled.
        request: The request that is passed to guards; None until the tool is known.
        admitted: How many guards have admitted the call.
        keyed: Whether the call holds its idempotency key, so that its result must be stored.
        ctx: The tool's context; None until the tool is about to run.
        patient: Whether to retry when no box is free.
        before_run: Awaited when all guards have admitted the call, before the tool is started.
        stops: How many inner calls wait for a person, while which the deadline stands still.
        left_s: The time that was left when it was stopped.
    """

    call_id: str
    name: str
    task: "asyncio.Task[object]"
    cancelling: int
    ts: str
    t0: float
    spec: ToolSpec | None = None
    deadline: float = math.inf
    attempts: int = 0
    started: bool = False
    settled: bool = False
    out_of_time: bool = False
    stopping: Stop | None = None
    request: GuardRequest | None = None
    plan: CallPlan | None = None
    admitted: int = 0
    keyed: bool = False
    ctx: CallContext | None = None
    patient: bool = True
    before_run: BeforeRun | None = None
    stops: int = 0
    left_s: float = math.inf

    def enter(self) -> None:
        """Mark the tool as started. If the tool blocks, its worker thread calls this method."""
        self.started = True

    def stop(self, why: Stop) -> None:
        """Cancel the waiting task on behalf of the engine."""
        self.stopping = why
        self.task.cancel()

    @property
    def asked_to_stop(self) -> bool:
        """Whether the engine or anyone else has cancelled the task since the call began."""
        return self.task.cancelling() > self.cancelling

    def uncancel(self) -> bool:
        """Undo the engine's own cancellation request after a CancelledError, as `asyncio.timeout` does.

        Returns:
            True if nobody else cancelled the task, so the call can produce a result. False if the CancelledError must
            propagate.
        """
        if self.stopping is not None:
            self.stopping = None
            self.task.uncancel()
        return not self.asked_to_stop


class InFlightCalls:
    """The calls in flight of one engine, in one event loop.

    All deadlines share one timer, which is set for the earliest. An `asyncio.timeout` for each call would take 7 us, a
    quarter of the time of the whole pipeline, and leave a cancelled timer in the loop.
    """

    def __init__(self, clock: Clock, new_id: Callable[[], str]) -> None:
        self._clock = clock
        self._new_id = new_id
        self._by_id: dict[str, InFlightCall] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def start(self, call: ToolCall) -> InFlightCall:
        """Add a call. Callers choose ids, so an id that is already in flight gets a suffix."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("A tool call needs a running asyncio task.")
        call_id = call.id or self._new_id()
        if call_id in self._by_id:
            call_id = f"{call_id}-{self._new_id()}"
        clock = self._clock
        inflight = InFlightCall(call_id, call.name, task, task.cancelling(), clock.now().isoformat(), clock.monotonic())
        self._by_id[call_id] = inflight
        return inflight

    def end(self, inflight: InFlightCall) -> None:
        """Remove a call. If its tool ignored a cancellation request, the request is cleared from the waiting task."""
        del self._by_id[inflight.call_id]
        if inflight.stopping is not None:
            inflight.uncancel()

    def set_deadline(self, inflight: InFlightCall, timeout_s: float) -> None:
        """Stop the call `timeout_s` seconds from now, unless its `deadline` is reset first.

        Resetting `deadline` does not cancel the timer. When it fires, only calls past their deadline are stopped.
        """
        loop = inflight.task.get_loop()
        inflight.deadline = loop.time() + timeout_s
        if inflight.deadline < self._timer_at:
            self._set_timer(loop, inflight.deadline)

    @contextlib.contextmanager
    def clock_stopped(self, call_id: str) -> Iterator[None]:
        """Stop the deadline of a call within the block. Blocks may overlap. Do nothing if the call is not in flight."""
        inflight = self._by_id.get(call_id)
        if inflight is None:
            yield
            return
        loop = inflight.task.get_loop()
        if inflight.stops == 0:
            inflight.left_s, inflight.deadline = inflight.deadline - loop.time(), math.inf
        inflight.stops += 1
        try:
            yield
        finally:
            inflight.stops -= 1
            if inflight.stops == 0 and inflight.left_s < math.inf and not inflight.settled:
                self.set_deadline(inflight, inflight.left_s)

    def cancel(self, call_id: str) -> bool:
        """Cancel one call. Its caller receives a result whose audit has the end ``killed``.

        Returns:
            False if there is nothing to cancel: the id is unknown, the tool is done, the call is already being
            stopped, or the call tries to cancel itself.
        """
        inflight = self._by_id.get(call_id)
        if (
            inflight is None
            or inflight.stopping is not None
            or inflight.settled
            or inflight.task is asyncio.current_task()
        ):
            return False
        inflight.stop(Stop.KILLED)
        return True

    def cancel_all(self) -> int:
        """Cancel every call in flight and return how many were cancelled."""
        return sum(self.cancel(call_id) for call_id in list(self._by_id))

    async def close(self, grace_s: float) -> bool:
        """Cancel all calls and wait for those in other tasks. Return False if any still run after `grace_s` seconds."""
        self.cancel_all()
        own = asyncio.current_task()
        end = self._clock.monotonic() + grace_s
        while any(each.task is not own for each in self):
            if self._clock.monotonic() >= end:
                return False
            await asyncio.sleep(_POLL_S)
        if self._timer is not None:
            self._timer.cancel()
        return True

    def __iter__(self) -> Iterator[InFlightCall]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = loop.call_at(when, self._stop_late, loop)

    def _stop_late(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop calls past their deadline, and set the timer for the next deadline."""
        self._timer, self._timer_at = None, math.inf
        now, following = loop.time(), math.inf
        for inflight in self:
            if inflight.deadline > now:
                following = min(following, inflight.deadline)
            elif inflight.stopping is None:
                inflight.out_of_time = True
                inflight.stop(Stop.DEADLINE)
        if following < math.inf:
            self._set_timer(loop, following)

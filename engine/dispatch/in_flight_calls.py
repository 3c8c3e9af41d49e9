"""`InFlightCalls`: tracks running calls, cancels them by id, and enforces their deadlines with one shared timer."""

import asyncio
import math
from collections.abc import Callable, Iterator

from engine.contract.context import Clock
from engine.contract.result import ToolCall
from engine.dispatch.in_flight_call import InFlightCall, Stop

_POLL_S = 0.005  # poll interval while a closing engine waits for cancelled calls


class InFlightCalls:
    """The calls in flight of one engine, in one event loop.

    Deadlines share one timer, set for the earliest. One `asyncio.timeout` per call would cost 7 us, a quarter of the
    whole pipeline, and leave a cancelled timer in the loop.
    """

    def __init__(self, clock: Clock, new_id: Callable[[], str]) -> None:
        self._clock = clock
        self._new_id = new_id
        self._by_id: dict[str, InFlightCall] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def start(self, call: ToolCall) -> InFlightCall:
        """Add a call. Callers choose ids, so one that is already in flight gets a suffix."""
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
        """Remove a call. Clears a cancellation request that the tool ignored from the waiting task."""
        del self._by_id[inflight.call_id]
        if inflight.stopping is not None:
            inflight.uncancel()

    def set_deadline(self, inflight: InFlightCall, timeout_s: float) -> None:
        """Stop the call `timeout_s` seconds from now, unless `clear_deadline` comes first."""
        loop = inflight.task.get_loop()
        inflight.deadline = loop.time() + timeout_s
        if inflight.deadline < self._timer_at:
            self._set_timer(loop, inflight.deadline)

    def clear_deadline(self, inflight: InFlightCall) -> None:
        """Remove the deadline. The timer stays set: it will find nothing late, or serve the next call."""
        inflight.deadline = math.inf

    def cancel(self, call_id: str) -> bool:
        """Cancel one call; its waiter gets a result with end ``killed``.

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
        """Cancel all calls and wait for those of other tasks. False if some still run after `grace_s`."""
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

"""All calls in flight: entering and leaving, cancelling one by its id, and their deadlines on one shared timer."""

import asyncio
import math
from collections.abc import Callable, Iterator

from engine.contract.context import Clock
from engine.contract.result import ToolCall
from engine.dispatch.in_flight_call import InFlightCall, Stop

_POLL_S = 0.005  # between two looks at whether cancelled calls have ended; only when an engine closes


class InFlightCalls:
    """The calls in flight of one engine, in one event loop.

    Deadlines share one timer, set for the earliest: `asyncio.timeout` for each call would cost 7 us, a quarter of
    the whole pipeline, and leave a cancelled timer behind in the loop.
    """

    def __init__(self, clock: Clock, new_id: Callable[[], str]) -> None:
        self._clock = clock
        self._new_id = new_id
        self._by_id: dict[str, InFlightCall] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def start(self, call: ToolCall) -> InFlightCall:
        """Enter a call. An id that is in flight already (callers choose them) gets a suffix."""
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
        """Leave. A tool that ignored its cancellation and finished leaves no trace of that on the waiting task."""
        del self._by_id[inflight.call_id]
        if inflight.stopping is not None:
            inflight.take_back()

    def set_deadline(self, inflight: InFlightCall, timeout_s: float) -> None:
        """Stop the call `timeout_s` seconds from now, unless `clear_deadline` comes first."""
        loop = inflight.task.get_loop()
        inflight.deadline = loop.time() + timeout_s
        if inflight.deadline < self._timer_at:
            self._set_timer(loop, inflight.deadline)

    def clear_deadline(self, inflight: InFlightCall) -> None:
        """The timer stays: it finds nothing late, or is of use to the next call."""
        inflight.deadline = math.inf

    def cancel(self, call_id: str) -> bool:
        """Cancel one call; its waiter gets a result with end ``killed``. False when there is nothing to cancel:
        the id is unknown, the tool is done, it is being stopped already, or the call asks to cancel itself."""
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
        """Cancel every call in flight; how many were cancelled."""
        return sum(self.cancel(call_id) for call_id in list(self._by_id))

    async def close(self, grace_s: float) -> bool:
        """Cancel all, and wait until none of another task is in flight; False when some still are after `grace_s`."""
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
        """The timer: stop what is late, and set it for the next."""
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

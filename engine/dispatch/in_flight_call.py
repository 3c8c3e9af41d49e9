"""`InFlightCall`: the state of a call between its start and its result."""

import asyncio
import math
from dataclasses import dataclass
from enum import StrEnum

from engine.contract.context import CallContext
from engine.contract.guard import GuardRequest
from engine.contract.spec import ToolSpec


class Stop(StrEnum):
    """Why the engine stops a call. Cancellation of the waiting task by others is neither of these."""

    KILLED = "killed"  # Pipeline.cancel
    DEADLINE = "deadline"


@dataclass(slots=True, eq=False)
class InFlightCall:
    """One call in flight. Mutable: the stages fill it in.

    name: the requested name, which may be an alias.
    cancelling: the waiting task's `cancelling()` count when the call began.
    ts, t0: start time on the wall clock (ISO 8601) and on the monotonic clock.
    deadline: on the event loop's clock; infinite outside the run stage.
    stopping: set while the engine has asked the task to stop, until `uncancel`.
    out_of_time: the deadline has passed.
    started: the tool was entered. settled: the tool is done, so the call can no longer be cancelled.
    request: passed to guards, once the tool is known. admitted: how many guards have admitted the call.
    keyed: the call holds its idempotency key, so its result must be stored.
    ctx: the tool's context, once it is about to run.
    patient: retry when no box is free.
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
    admitted: int = 0
    keyed: bool = False
    ctx: CallContext | None = None
    patient: bool = True

    def enter(self) -> None:
        """Mark the tool as started. Called in the worker thread if the tool blocks."""
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

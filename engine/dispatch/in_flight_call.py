"""`InFlightCall`: one call between its start and its result, and who asked it to stop."""

import asyncio
import math
from dataclasses import dataclass
from enum import StrEnum

from engine.contract.context import CallContext
from engine.contract.guard import GuardRequest
from engine.contract.spec import ToolSpec


class Stop(StrEnum):
    """Why the engine itself stops a call. A waiter that is cancelled by its own canceller is neither."""

    KILLED = "killed"  # Pipeline.cancel
    DEADLINE = "deadline"


@dataclass(slots=True, eq=False)
class InFlightCall:
    """One call in flight. Mutable: the stages fill it in as they go.

    name: as asked for. cancelling: how often the waiting task had been asked to cancel before this call began.
    ts, t0: start on the wall clock (ISO 8601) and on the monotonic one.
    deadline: on the event loop's clock; infinite outside of the run stage.
    stopping: set from the moment the engine asks the task to stop until `take_back`. out_of_time: the deadline
    did it. started: the tool itself was entered. settled: the tool is done, so it is too late to cancel.
    request: what guards are asked about, once the tool is known. admitted: how many of
    them said yes. keyed: it holds its key, and what comes of it must be kept. ctx: what the tool was given, once it is
    about to run. patient: when there is no free box, it is tried again later.
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
        """The tool's own code begins; called in a worker thread for a tool that blocks."""
        self.started = True

    def stop(self, why: Stop) -> None:
        """Ask the waiting task to stop, on the engine's own account."""
        self.stopping = why
        self.task.cancel()

    @property
    def asked_to_stop(self) -> bool:
        """Whether somebody, the engine or the waiter's own canceller, has asked the task to stop."""
        return self.task.cancelling() > self.cancelling

    def take_back(self) -> bool:
        """After a CancelledError: undo the engine's own request. True when nobody else asked, so that the call can
        go on to a result; False when the waiting task is being cancelled, and the error must go on.

        The same way `asyncio.timeout` tells its own cancellation from another's.
        """
        if self.stopping is not None:
            self.stopping = None
            self.task.uncancel()
        return not self.asked_to_stop

"""`ActiveRun`: a run that this process works on, with its state and its recorder."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from engine.agent.budget import Budget, Finish
from engine.agent.calls import CallRound
from engine.agent.journal.recorder import RunRecorder
from engine.agent.journal.run_entries import RunEnded
from engine.agent.journal.run_state import RunState
from engine.contract.turn import Turn
from engine.stores.entry_writer import LeaseLost
from engine.stores.run_journal import RunJournal

_POLL_S = 0.5  # interval between two looks whether somebody has asked to cancel the run


@dataclass(slots=True, eq=False)
class ActiveRun:
    """A run that this process works on.

    Attributes:
        id: Its id in the journal; "" if there is no journal.
        patience_s: How long it waits for a model that is down, in seconds.
        cancelled: Whether it was cancelled because somebody asked for it in the journal.
    """

    id: str
    state: RunState
    recorder: RunRecorder
    turn: Turn
    budget: Budget
    patience_s: float = 0.0
    journal: RunJournal | None = None
    cancelled: bool = False

    @asynccontextmanager
    async def cancelled_on_request(self) -> AsyncIterator[None]:
        """Cancel the current task when somebody asks in the journal to cancel the run."""
        task = asyncio.current_task()
        if self.journal is None or task is None:
            yield
            return
        watching = asyncio.create_task(self._watch(self.journal, task), name=f"run {self.id}")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    def cancellation_is_handled(self) -> bool:
        """Return whether the current task was cancelled only because the journal asked for it, and clear this."""
        task = asyncio.current_task()
        return self.cancelled and task is not None and not task.uncancel()

    async def _watch(self, journal: RunJournal, task: "asyncio.Task[object]") -> None:
        while not self.cancelled:
            await asyncio.sleep(_POLL_S)
            if await asyncio.to_thread(journal.asked_to_cancel, self.id):
                self.cancelled = True
                self.recorder.leave_open = False
                task.cancel()


async def cancel_active_run(run: ActiveRun) -> None:
    """End a run that waits or was interrupted. Each call without a result gets one that says that it was not run."""
    close_open_calls(run)
    with suppress(LeaseLost):  # another process continues the run by itself
        await run.recorder.record(RunEnded(Finish.CANCELLED, "Cancelled."))
    await run.recorder.release()


def close_open_calls(run: ActiveRun) -> None:
    """Note a result of each call that has none: it was not run, or it is unknown what it did."""
    if run.state.round is not None and run.state.round.open:
        CallRound(run.state.round, run.recorder, datetime.now(UTC)).cancel_open()

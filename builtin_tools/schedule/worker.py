"""`JobWorker`: claims due instants and runs them. Any number of processes may have one."""

import asyncio
import logging
from pathlib import Path

from builtin_tools.schedule.claims import ClaimedInstant, InstantOutcome, finish, start
from builtin_tools.schedule.execution import execute
from builtin_tools.schedule.grouped_writes import AGAIN_S, TEMPORARY, GroupedWrites
from builtin_tools.schedule.store import JobStore, WorkStep
from builtin_tools.schedule.triggers.wall_time import SECOND
from engine.contract.background import BackgroundHost
from engine.contract.context import Clock
from engine.contract.scheduler import InstantState
from engine.stores.engine_lock import EngineLock

POLL_S = 1.0
DEAD_S = 5.0
log = logging.getLogger("knackbox.schedule")


class JobWorker:
    """Runs the instants of all jobs of a home, a few at a time.

    A worker holds a lock file while it runs, by which others see that it still runs. Unlike leases that expire, a lock
    is not affected by changes of the clock or a suspended machine: the kernel releases it when the process ends.
    """

    def __init__(
        self,
        store: JobStore,
        locks: Path,
        clock: Clock,
        *,
        slots: int = 4,
        stop_s: float = 10.0,
        poll_s: float = POLL_S,
        dead_s: float = DEAD_S,
    ) -> None:
        """Create a worker.

        Args:
            store: The jobs.
            locks: The folder of the lock files.
            clock: Measures the time between checks.
            slots: How many instants run at the same time.
            stop_s: How many seconds running instants get to end when the worker is stopped.
            poll_s: The longest time until a new job, a change of the clock or the end of a suspension is noticed.
            dead_s: The time between two checks for workers that have ended.
        """
        self._store = store
        self._locks = locks
        self._clock = clock
        self._slots = slots
        self._stop_s = stop_s
        self._poll_s = poll_s
        self._dead_s = dead_s
        self._writes = GroupedWrites(store.apply)
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, host: BackgroundHost) -> None:
        """Run instants until cancelled."""
        lock = await asyncio.to_thread(EngineLock, self._locks)
        try:
            await self._work(host, lock)
        finally:
            await self._end_running()
            # Instants that were claimed but have not begun are seen as those of a worker that has ended.
            lock.close()

    async def _work(self, host: BackgroundHost, lock: EngineLock) -> None:
        checked = float("-inf")
        while True:
            free = self._slots - len(self._running)
            check = self._clock.monotonic() - checked >= self._dead_s
            try:
                step = await asyncio.to_thread(self._store.step, lock.id, free, lock.is_running if check else None)
            except TEMPORARY as error:  # instants that are running must not be stopped because of it
                log.warning("The jobs cannot be read; this is tried again: %s", error)
                await asyncio.sleep(AGAIN_S)
                continue
            checked = self._clock.monotonic() if check else checked
            for job, instant in step.unknown:
                log.warning("A run of the job %s was interrupted and may have had an effect (%s).", job, instant)
            for claimed in step.claimed:
                task = asyncio.create_task(self._run(host, claimed, lock.id), name=claimed.call_id)
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            await self._wait(step)

    async def _wait(self, step: WorkStep) -> None:
        """Wait until the next planned instant, the end of a running one, or the next poll."""
        pause = self._poll_s
        if step.next_at is not None and len(self._running) < self._slots:
            pause = min(max((step.next_at - self._store.now()) / SECOND, 0.0), self._poll_s)
        if self._running:
            await asyncio.wait(self._running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(pause)

    async def _run(self, host: BackgroundHost, claimed: ClaimedInstant, worker: str) -> None:
        """Run an instant, and record how it ended. Cancelling this cancels the run, and the end is still recorded."""

        async def begin(repeatable: bool) -> bool:
            return await self._writes.write(
                lambda connection, now: start(connection, claimed, worker, now, repeatable=repeatable)
            )

        outcome: InstantOutcome | None
        try:
            outcome = await execute(host, claimed, begin, self._store.now)
        except asyncio.CancelledError:
            outcome = InstantOutcome(InstantState.DUE, reason="its worker was stopped", retry_at=self._store.now())
        except Exception as error:
            log.exception("The job %s failed in an unexpected way.", claimed.job.id)
            reason = f"{type(error).__name__}: {error}; it may have had an effect"
            outcome = InstantOutcome(InstantState.UNKNOWN, reason=reason)
        if outcome is None:
            return
        ended = outcome
        await self._writes.write(lambda connection, now: finish(connection, claimed, worker, ended, now))
        if ended.state in (InstantState.FAILED, InstantState.UNKNOWN):
            log.warning("The job %s (%s): %s. %s", claimed.job.id, claimed.job.request.name, ended.state, ended.reason)

    async def _end_running(self) -> None:
        """Let running instants end, and cancel those that take too long."""
        if self._running:
            await asyncio.wait(self._running, timeout=self._stop_s)
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

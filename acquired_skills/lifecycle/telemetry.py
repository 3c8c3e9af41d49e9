"""`Telemetry`: records the outcomes of skill calls in batches, so that no call waits for the disk (SKILL-12)."""

import asyncio
import logging

from acquired_skills.store.ledger import Ledger
from acquired_skills.store.totals import SkillCall
from engine.contract.failure import ConfigError, FailureClass
from engine.stores.locks import StoreBusy

FLUSH_S = 0.05  # seconds between two writes; a `kill -9` may lose the calls in between
MOST_WAITING = 10_000

log = logging.getLogger(__name__)


class Telemetry:
    """Buffers calls before the ledger stores them. Call `flush` before reading the ledger, and `aclose` at the end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[SkillCall] = []
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def log(self, call: SkillCall) -> None:
        """Record one call, which is written within FLUSH_S seconds. This needs a running event loop."""
        self._waiting.append(call)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._start)

    async def flush(self) -> None:
        """Write the buffer. If the records cannot be written, the calls stay in the buffer and the error is logged."""
        async with self._lock:
            batch, self._waiting = self._waiting, []
            if not batch:
                return
            try:
                await asyncio.to_thread(self._ledger.log, batch)
            except (StoreBusy, ConfigError) as error:
                log.warning("Telemetry of %d skill calls could not be written yet: %s", len(batch), error)
                self._waiting = (batch + self._waiting)[-MOST_WAITING:]

    async def aclose(self) -> None:
        """Write the buffer and stop."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await self._task
        await self.flush()

    def _start(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self.flush())


def counted(failure_class: FailureClass | None) -> bool:
    """Return whether a failure counts against a skill. RETRYABLE failures are not its fault, so they do not."""
    return failure_class is not FailureClass.RETRYABLE

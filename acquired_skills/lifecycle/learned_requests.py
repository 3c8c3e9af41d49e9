"""`LearnedRequests`: takes note of a successful call's request without keeping the call waiting."""

import asyncio
import logging

from acquired_skills.store.past_requests import PastRequests
from engine.contract.failure import ConfigError
from engine.stores.locks import StoreBusy

AFTER_S = 0.05  # so that the calls of one turn are written together
MOST_WAITING = 1_000

log = logging.getLogger(__name__)


class LearnedRequests:
    """A buffer in front of `PastRequests`. Belongs to one event loop; `aclose` it once."""

    def __init__(self, past: PastRequests, *, on: bool = True) -> None:
        """on: whether any are kept."""
        self._past = past
        self.on = on
        self._waiting: list[tuple[str, str]] = []
        self._task: asyncio.Task[None] | None = None

    def note(self, skill: str, request: str | None) -> None:
        """This skill was called for this request, and succeeded. Inside a running event loop."""
        if not self.on or not request or not request.strip():
            return
        self._waiting = [*self._waiting, (skill, request)][-MOST_WAITING:]
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._later())

    async def flush(self) -> None:
        """Write what waits. When the records cannot be written it is let go, and the log says so."""
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        try:
            await asyncio.to_thread(self._past.keep, batch)
        except (StoreBusy, ConfigError) as error:
            log.warning("The requests of %d successful skill calls could not be kept: %s", len(batch), error)

    async def aclose(self) -> None:
        """Write what waits, and stop."""
        if self._task is not None:
            await asyncio.wait([self._task])  # not cancelled: a thread of its may be writing
        await self.flush()

    async def _later(self) -> None:
        while self._waiting:
            await asyncio.sleep(AFTER_S)
            await self.flush()

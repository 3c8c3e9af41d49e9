"""`LearnedRequests`: records the requests of successful calls without delaying the calls."""

import asyncio
import logging

from acquired_skills.store.past_requests import PastRequests
from engine.contract.failure import ConfigError
from engine.stores.locks import StoreBusy

AFTER_S = 0.05  # seconds to wait, so that the calls of one turn are written together
MOST_WAITING = 1_000

log = logging.getLogger(__name__)


class LearnedRequests:
    """Buffers requests before `PastRequests` stores them. It belongs to one event loop. Call `aclose` at the end."""

    def __init__(self, past: PastRequests, *, on: bool = True) -> None:
        """Create an empty buffer. If `on` is false, requests are not recorded."""
        self._past = past
        self.on = on
        self._waiting: list[tuple[str, str, str]] = []
        self._task: asyncio.Task[None] | None = None

    def note(self, skill: str, request: str | None, user: str = "") -> None:
        """Record that a skill succeeded for a request of a user. This needs a running event loop."""
        if not self.on or not request or not request.strip():
            return
        self._waiting = [*self._waiting, (skill, request, user)][-MOST_WAITING:]
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._later())

    async def flush(self) -> None:
        """Write the buffer. If the records cannot be written, its content is dropped and the error is logged."""
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        try:
            await asyncio.to_thread(self._past.keep, batch)
        except (StoreBusy, ConfigError) as error:
            log.warning("The requests of %d successful skill calls could not be stored: %s", len(batch), error)

    async def aclose(self) -> None:
        """Write the buffer and stop."""
        if self._task is not None:
            await asyncio.wait([self._task])  # not cancelled: its thread may be writing
        await self.flush()

    async def _later(self) -> None:
        while self._waiting:
            await asyncio.sleep(AFTER_S)
            await self.flush()

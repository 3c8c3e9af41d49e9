"""`LearnedRequests`: records the requests of successful calls without delaying the calls."""

import asyncio
import logging
from collections.abc import Collection, Mapping

from acquired_skills.store.past_requests import PastRequests
from engine.contract.failure import ConfigError
from engine.stores.locks import StoreBusy

AFTER_S = 0.05  # seconds to wait, so that the calls of one turn are written together
MOST_WAITING = 1_000

log = logging.getLogger(__name__)


class LearnedRequests:
    """Buffers requests before `PastRequests` stores them (`ToolRequests`). It belongs to one event loop.

    Call `aclose` at the end.
    """

    def __init__(self, past: PastRequests, *, on: bool = True) -> None:
        """Create an empty buffer. If `on` is false, requests are neither recorded nor returned."""
        self._past = past
        self.on = on
        self._waiting: dict[tuple[str, str, str], None] = {}  # in the order of the calls, each request once
        self._task: asyncio.Task[None] | None = None

    def note(self, tool: str, request: str, user: str = "") -> None:
        """Record that a tool succeeded for a request of a user. This needs a running event loop."""
        if not self.on or not request.strip():
            return
        noted = (tool, request, user)
        if noted in self._waiting:
            return
        if len(self._waiting) >= MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[noted] = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._later())

    def generation(self) -> int:
        """Return the generation of the stored requests."""
        return self._past.generation() if self.on else 0

    def of(self, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the stored requests of these tools, oldest first."""
        return self._past.of(names) if self.on else {}

    async def flush(self) -> None:
        """Write the buffer. If the records cannot be written, its content is dropped and the error is logged."""
        batch, self._waiting = list(self._waiting), {}
        if not batch:
            return
        try:
            await asyncio.to_thread(self._past.keep, batch)
        except (StoreBusy, ConfigError) as error:
            log.warning("The requests of %d successful calls could not be stored: %s", len(batch), error)

    async def aclose(self) -> None:
        """Write the buffer and stop."""
        if self._task is not None:
            await asyncio.wait([self._task])  # not cancelled: its thread may be writing
        await self.flush()

    async def _later(self) -> None:
        while self._waiting:
            await asyncio.sleep(AFTER_S)
            await self.flush()

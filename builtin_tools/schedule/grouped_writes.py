"""`GroupedWrites`: writes of concurrent tasks, of which all that wait share one transaction.

Each commit waits for the disk, and SQLite lets only one connection write. So twenty runs that each wrote on their own
would wait twenty times as long, and some of them would give up.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from engine.contract.failure import ConfigError
from engine.stores.locks import StoreBusy

AGAIN_S = 1.0  # pause after the database was busy or the disk was full
TEMPORARY = (StoreBusy, ConfigError, SQLAlchemyError)

T = TypeVar("T")
Change = Callable[[Connection, int], Any]

log = logging.getLogger("knackbox.schedule")


class GroupedWrites:
    """Applies changes in the order of their requests. Use it in one event loop."""

    def __init__(self, apply: Callable[[Sequence[Change]], list[Any]]) -> None:
        """Create an idle object.

        Args:
            apply: Applies changes in one transaction and returns their results. It blocks.
        """
        self._apply = apply
        self._waiting: list[tuple[Change, asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, change: Callable[[Connection, int], T]) -> T:
        """Apply a change and return its result. It is tried until it succeeds, also if the caller is cancelled.

        Args:
            change: Receives the connection and the current time as an instant.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_all())
        return await to_the_end(future)

    async def _write_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                results = await asyncio.to_thread(self._apply, [change for change, _ in batch])
            except TEMPORARY as error:
                log.warning("The state of jobs is not stored yet; this is tried again: %s", error)
                self._waiting = batch + self._waiting
                await asyncio.sleep(AGAIN_S)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                future.set_result(result)


async def to_the_end(work: "asyncio.Future[T]") -> T:
    """Await `work`. A cancellation is raised only after it has ended."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise

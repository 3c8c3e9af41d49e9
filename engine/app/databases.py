"""The databases of a home: what each holds, and the backups that are taken of them while an engine is open."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from engine.app.home import Home
from engine.app.settings import BackupSettings
from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.stores.backups import Backups, BackupStopped
from engine.stores.engine_lock import EngineLock
from engine.stores.locks import StoreBusy
from engine.stores.records import Records
from engine.stores.sqlite_file import Contents

RECORDS = Contents(
    held="the log of calls and failures, the statistics of skills, rate limits, idempotency keys, notes and tokens",
    kept="skills (their folders are the truth), events, registered tools, settings and the workspace",
)
EVENTS = Contents(
    held="events that were not delivered yet, dead letters, and how far each subscriber was",
    kept="skills, the records, registered tools, settings and the workspace",
)
_LOOK_S = 3600.0  # between two looks at whether a backup is due
_GRACE_S = 5.0  # that closing waits for a backup

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Databases:
    """The open databases of a home.

    Attributes:
        lock: tells other processes that this engine is alive.
        records: rows whose latest commits a power cut may take.
        lasting: rows whose every commit survives one; the event log is kept here.
    """

    lock: EngineLock
    records: Records
    lasting: Records


async def open_databases(home: Home, settings: BackupSettings, clock: Clock, stack: AsyncExitStack) -> Databases:
    """Open the databases, to be closed by the stack, and take backups of them while they are open.

    Raises:
        ConfigError: one of them is lost, damaged or cannot be used.
    """
    lock = await asyncio.to_thread(EngineLock, home.engines)  # first, so that nobody restores what is being opened
    stack.callback(lock.close)
    records = await asyncio.to_thread(Records.open, home.records_url, contents=RECORDS)
    stack.callback(records.close)
    lasting = await asyncio.to_thread(Records.open, home.events_url, power_cuts=True, contents=EVENTS)
    stack.callback(lasting.close)
    await stack.enter_async_context(taking_backups(backups_of(home, settings, clock)))
    return Databases(lock, records, lasting)


def backups_of(home: Home, settings: BackupSettings, clock: Clock) -> Backups:
    """Return the backups of a home."""
    every = timedelta(hours=settings.every_hours)
    return Backups(home.backups, (home.records, home.events), clock, keep=settings.keep, every=every)


@asynccontextmanager
async def taking_backups(backups: Backups) -> AsyncIterator[None]:
    """Take a backup whenever one is due, in a thread, for as long as the context is open."""
    closing = asyncio.Event()
    task = asyncio.create_task(_take_when_due(backups, closing), name="backups")
    try:
        yield
    finally:
        closing.set()
        await asyncio.wait({task}, timeout=_GRACE_S)
        backups.stop()
        await task


async def _take_when_due(backups: Backups, closing: asyncio.Event) -> None:
    while not closing.is_set():
        try:
            await asyncio.to_thread(backups.take_if_due)
        except (ConfigError, StoreBusy, OSError) as error:
            log.warning("No backup was taken: %s", error)
        except BackupStopped:
            return
        try:
            async with asyncio.timeout(_LOOK_S):
                await closing.wait()
        except TimeoutError:
            continue

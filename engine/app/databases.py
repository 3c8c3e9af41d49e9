"""Opens the databases of a home and takes backups of them while an engine is open."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta

from engine.app.home import Home
from engine.app.settings import BackupSettings, Settings
from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.stores import journal_upgrade
from engine.stores.backups import Backup, Backups, BackupStopped
from engine.stores.child_runs import ChildRunStore
from engine.stores.engine_lock import EngineLock
from engine.stores.entry_writer import EntryWriter
from engine.stores.locks import StoreBusy
from engine.stores.program_store import ProgramStore
from engine.stores.records import Records
from engine.stores.run_journal import RunJournal
from engine.stores.sqlite_file import Contents
from sandbox.secrets.redactor import Redactor

RECORDS = Contents(
    held="the log of calls and failures, the statistics of skills, rate limits, idempotency keys, notes and tokens",
    kept="skills (they are stored in their folders), events, registered tools, settings and the workspace",
)
EVENTS = Contents(
    held="undelivered events, dead letters, and the position of each subscriber",
    kept="skills, the records, registered tools, settings and the workspace",
)
RUNS = Contents(
    held="the journal of the loop's runs: their transcripts, and the runs that could be resumed",
    kept="skills, the records, events, registered tools, settings and the workspace",
)
_CHECK_S = 3600.0  # interval between checks whether a backup is due
_GRACE_S = 5.0  # the longest time that closing waits for a running backup

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Databases:
    """The open databases of a home.

    Attributes:
        lock: Shows other processes that this engine is running.
        records: The database for most data. A power failure may lose its latest commits.
        lasting: The database with the event log. All its commits survive a power failure.
        runs: The journal of the loop's runs.
        children: The runs that other runs have started, in the same database.
        programs: The programs of runs, in the same database.
    """

    lock: EngineLock
    records: Records
    lasting: Records
    runs: RunJournal
    children: ChildRunStore
    programs: ProgramStore


async def open_databases(
    home: Home, settings: Settings, clock: Clock, stack: AsyncExitStack, redactor: Redactor | None = None
) -> Databases:
    """Open the databases, and take backups until `stack` closes them. `redactor` is applied to the journal of runs.

    Raises:
        ConfigError: A database is missing, damaged or unusable.
    """
    # The lock is taken first, so that no other process can restore a backup while the databases are being opened.
    lock = await asyncio.to_thread(EngineLock, home.engines)
    stack.callback(lock.close)
    records = await asyncio.to_thread(Records.open, home.records_url, contents=RECORDS)
    stack.callback(records.close)
    lasting = await asyncio.to_thread(Records.open, home.events_url, power_cuts=True, contents=EVENTS)
    stack.callback(lasting.close)
    runs, children, programs = await asyncio.to_thread(
        _open_runs, home, settings, lock, clock, stack, redactor=redactor
    )
    backups = backups_of(home, settings.backups, clock)
    if await asyncio.to_thread(journal_upgrade.due, records):
        await _take(backups.take_before_upgrade)
    await stack.enter_async_context(taking_backups(backups))
    return Databases(lock, records, lasting, runs, children, programs)


@contextmanager
def open_run_journal(home: Home, settings: Settings, clock: Clock) -> Iterator[RunJournal]:
    """Open the journal of runs without an engine, for commands that need nothing else.

    Raises:
        ConfigError: The database is missing, damaged or unusable.
    """
    with ExitStack() as stack:
        lock = EngineLock(home.engines)
        stack.callback(lock.close)
        yield _open_runs(home, settings, lock, clock, stack)[0]


def _open_runs(
    home: Home,
    settings: Settings,
    lock: EngineLock,
    clock: Clock,
    stack: ExitStack | AsyncExitStack,
    *,
    redactor: Redactor | None = None,
) -> tuple[RunJournal, ChildRunStore, ProgramStore]:
    records = Records.open(home.runs_url, secure_delete=True, contents=RUNS)
    stack.callback(records.close)

    writer = EntryWriter(home.runs)
    stack.callback(writer.close)
    journal = RunJournal(records, lock, clock, writer, kept=settings.retention.runs, redactor=redactor)
    return journal, ChildRunStore(records, lock, clock), ProgramStore(records, clock, redactor)


def backups_of(home: Home, settings: BackupSettings, clock: Clock) -> Backups:
    """Return the backups of a home."""
    every = timedelta(hours=settings.every_hours)
    files = (home.records, home.events, home.memory, home.schedule, home.projects, home.runs)
    return Backups(home.backups, files, clock, keep=settings.keep, every=every)


@asynccontextmanager
async def taking_backups(backups: Backups) -> AsyncIterator[None]:
    """Take a backup in a thread whenever one is due, while the context is open."""
    closing = asyncio.Event()
    task = asyncio.create_task(_take_when_due(backups, closing), name="backups")
    try:
        yield
    finally:
        closing.set()
        await asyncio.wait({task}, timeout=_GRACE_S)
        backups.stop()
        await task


async def _take(take: Callable[[], Backup | None]) -> None:
    try:
        await asyncio.to_thread(take)
    except (ConfigError, StoreBusy, OSError) as error:
        log.warning("No backup was taken: %s", error)


async def _take_when_due(backups: Backups, closing: asyncio.Event) -> None:
    while not closing.is_set():
        try:
            await _take(backups.take_if_due)
        except BackupStopped:
            return
        try:
            async with asyncio.timeout(_CHECK_S):
                await closing.wait()
        except TimeoutError:
            continue

"""`RunRecorder`: writes the entries of one run to the journal, in order and before anything acts on them."""

import asyncio
from collections.abc import Callable

from engine.agent.journal.run_entries import CallBegun, Entry, RunEnded, to_json
from engine.agent.journal.run_state import RunState
from engine.stores.entry_writer import NewEntries, RunLease, UnreadMessages
from engine.stores.run_journal import ENDED, OPEN, WAITING, RunJournal

Begin = Callable[[NewEntries], RunLease]  # adds the run to the journal with its first entries


class WorkClock:
    """Measures how long a run has been worked on, without the time that it waited."""

    def __init__(self, now: Callable[[], float], worked_s: float = 0.0) -> None:
        self._now = now
        self._began = now() - worked_s

    @property
    def worked_s(self) -> float:
        return self._now() - self._began

    def exclude(self, seconds: float) -> None:
        """Do not count the last `seconds`, or the next ones if the run is about to wait for them."""
        self._began += seconds


class RunRecorder:
    """Applies entries to the state of a run and writes them to the journal.

    Entries that are only noted are written together with the next ones that are recorded. Entries of calls that end at
    the same time share a commit. Use it in one event loop.

    Attributes:
        may_wait: Whether the run may stop to wait for an approval or its model, and be resumed later. By default, it
            may if there is a journal.
        cancel_wanted: Whether somebody has asked in the journal to cancel the run.
        newest_message: The number of the newest message to the run, as far as is known.
        leave_open: Whether a run whose task is cancelled stays as it is, so that it can be resumed.
    """

    def __init__(
        self,
        state: RunState,
        clock: WorkClock,
        journal: RunJournal | None = None,
        *,
        lease: RunLease | None = None,
        begin: Begin | None = None,
    ) -> None:
        """Create a recorder.

        Args:
            state: The state of the run.
            clock: Measures the work on the run.
            journal: Stores the entries; None to store nothing.
            lease: The lease of a run that is in the journal.
            begin: Adds a new run to the journal.
        """
        self.clock = clock
        self.cancel_wanted = False
        self.newest_message = 0
        self.leave_open = False
        self.may_wait = journal is not None
        self._state = state
        self._journal = journal
        self._lease = lease
        self._begin = begin
        self._waiting: list[tuple[float, str]] = []
        self._lasting = False
        self._writing = asyncio.Lock()

    def note(self, *entries: Entry) -> None:
        """Apply entries. They are written with the next entries that are recorded."""
        for entry in entries:
            self._state.apply(entry)
            if self._journal is not None:
                self._waiting.append((round(self.clock.worked_s, 3), self._journal.redacted(to_json(entry))))
                # After a power failure it must be known which calls may have had an effect.
                self._lasting = self._lasting or isinstance(entry, CallBegun)

    async def record(self, *entries: Entry) -> None:
        """Apply entries, and wait until they and all earlier ones are stored.

        If the waiting task is cancelled, the entries are stored nevertheless.

        Raises:
            LeaseLost: Another worker has taken over the run.
            ConfigError: The journal cannot be written, for instance because the disk is full.
        """
        self.note(*entries)
        if self._journal is not None:
            await asyncio.shield(asyncio.ensure_future(self._write_waiting(self._journal)))

    async def flush(self) -> None:
        """Wait until all entries that were noted are stored.

        Raises:
            LeaseLost, ConfigError: As for `record`.
        """
        if self._waiting:
            await self.record()

    async def record_answer(self, ended: RunEnded) -> bool:
        """Record the end of the run, unless somebody has sent a message to it that was not delivered.

        Returns:
            Whether the run has ended.

        Raises:
            LeaseLost, ConfigError: As for `record`.
        """
        self.note(ended)
        if self._journal is None:
            return True
        writing = asyncio.ensure_future(self._write_end(self._journal))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})  # so that the state says whether the run has ended
            raise

    async def release(self) -> None:
        """Give up the lease, so that another worker can continue the run."""
        if self._journal is not None and self._lease is not None:
            async with self._writing:
                await asyncio.to_thread(self._journal.release, self._lease)

    async def _write_end(self, journal: RunJournal) -> bool:
        """Write the noted entries, of which the last is the end. If there is a new message, take this entry back."""
        read_upto = self._state.read_upto
        try:
            await self._write_waiting(journal, read_upto)
        except UnreadMessages:
            self._waiting.pop()
            self._state.ended = None
            self.newest_message = max(self.newest_message, read_upto + 1)
            return False
        return True

    async def _write_waiting(self, journal: RunJournal, read_upto: int | None = None) -> None:
        async with self._writing:
            entries, self._waiting = self._waiting, []
            if not entries:
                return
            lasting, self._lasting = self._lasting, False
            state, finish = self._standing()
            try:
                await asyncio.to_thread(self._write, journal, NewEntries(entries, state, finish, lasting, read_upto))
            except BaseException:
                self._waiting = entries + self._waiting
                raise

    def _write(self, journal: RunJournal, new: NewEntries) -> None:
        if self._lease is not None:
            appended = journal.append(self._lease, new)
            self.cancel_wanted = appended.cancel_wanted or self.cancel_wanted
            self.newest_message = max(appended.newest_message, self.newest_message)
        elif self._begin is not None:
            self._lease = self._begin(new)

    def _standing(self) -> tuple[str, str]:
        """Return the state of the run for lists, and why it has it."""
        if self._state.ended is not None:
            return ENDED, self._state.ended.finish.value
        if self._state.waits is not None:
            return WAITING, self._state.waits.waits_for
        return OPEN, ""

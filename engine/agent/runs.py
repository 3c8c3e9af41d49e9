"""`Runs`: opens new runs and runs of the journal, so that the loop can work on them.

Importing this module loads pydantic_ai, which takes seconds.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, replace

from pydantic import TypeAdapter

from engine.agent.active_run import ActiveRun
from engine.agent.budget import Budget
from engine.agent.journal.recorder import RunRecorder, WorkClock
from engine.agent.journal.run_entries import from_json
from engine.agent.journal.run_state import RunState
from engine.contract.failure import ConfigError
from engine.contract.turn import Turn
from engine.stores.entry_writer import NewEntries, RunLease
from engine.stores.run_journal import ENDED, RunEntryRow, RunHasEnded, RunJournal, RunRow

_TURN = TypeAdapter(Turn)
_COMPUTED = {"query", "agent_key", "run", "share"}


class Runs:
    """The runs of a home, or of this process if there is no journal."""

    def __init__(
        self,
        journal: RunJournal | None = None,
        *,
        patience_s: float = 0.0,
        now: Callable[[], float] = time.monotonic,
        source: str = "",
        continues: str = "",
    ) -> None:
        """Create the object.

        Args:
            journal: Stores the runs; None to keep them in memory.
            patience_s: How long a run waits for a model that is down, before it stops and can be resumed.
            now: Monotonic time in seconds.
            source: What begins the runs, such as ``"chat"``. `RunJournal.latest` finds runs by it.
            continues: The id of a run that has ended. Its messages precede those of the first new run.
        """
        self._journal = journal
        self._source = source
        self._patience_s = patience_s
        self._now = now
        self._earlier = self._ended(journal, continues) if journal is not None and continues else None

    def new(self, message: str, turn: Turn, budget: Budget, previous: ActiveRun | None, run_id: str = "") -> ActiveRun:
        """Return a new run. It is added to the journal with its first entries.

        Args:
            message: The user's message.
            turn: The user, agent and features of its turns.
            budget: Its limits.
            previous: The run before it in the same conversation.
            run_id: Its id in the journal; generated if empty.
        """
        previous = previous or self._earlier
        state = RunState.after(previous.state if previous is not None else None)
        clock, journal = WorkClock(self._now), self._journal
        if journal is None:
            return ActiveRun("", state, RunRecorder(state, clock), turn, budget)
        run, before = run_id or secrets.token_hex(4), previous.id if previous is not None else ""

        def begin(new: NewEntries) -> RunLease:
            kept = _TURN.dump_python(turn, mode="json", exclude=_COMPUTED)
            setup = json.dumps({"turn": kept, "budget": asdict(budget), "source": self._source})
            return journal.create(run, message, setup, new, user=turn.user, agent=turn.agent, previous=before)

        recorder = RunRecorder(state, clock, journal, begin=begin)
        return ActiveRun(run, state, recorder, replace(turn, run=run), budget, self._patience_s, journal)

    async def open(self, run: str) -> ActiveRun:
        """Take the lease of a run of the journal and rebuild its state.

        Raises:
            UnknownRun: There is no such run.
            RunBusy: Another process works on it.
            RunHasEnded: It has ended.
        """
        if self._journal is None:
            raise ConfigError("Without a journal, no run can be resumed.")
        return await asyncio.to_thread(self._open, self._journal, run)

    def _ended(self, journal: RunJournal, run: str) -> ActiveRun:
        """Return a run that has ended, for its messages.

        Raises:
            UnknownRun: There is no such run.
        """
        row = journal.one(run)
        state, _ = rebuilt(journal, row)
        setup = json.loads(row.setup)
        recorder = RunRecorder(state, WorkClock(self._now))
        return ActiveRun(run, state, recorder, _TURN.validate_python(setup["turn"]), Budget(**setup["budget"]))

    def _open(self, journal: RunJournal, run: str) -> ActiveRun:
        row = journal.one(run)
        if row.state == ENDED:
            raise RunHasEnded(
                f"The run {run} has ended ({row.finish}). To continue from one of its turns, copy it with "
                f"knackbox runs fork {run}."
            )
        lease = journal.claim(run)
        state, rows = rebuilt(journal, row)
        clock = WorkClock(self._now, rows[-1].worked_s if rows else 0.0)
        setup = json.loads(row.setup)
        turn, budget = _TURN.validate_python(setup["turn"]), Budget(**setup["budget"])
        recorder = RunRecorder(state, clock, journal, lease=lease)
        return ActiveRun(run, state, recorder, replace(turn, run=run), budget, self._patience_s, journal)


def rebuilt(journal: RunJournal, row: RunRow) -> tuple[RunState, list[RunEntryRow]]:
    """Return the state of a run, rebuilt from its entries, and these entries."""
    state = RunState.after(state_before(journal, row))
    rows = journal.entries(row.id)
    for each in rows:
        state.apply(from_json(each.entry))
    return state, rows


def state_before(journal: RunJournal, row: RunRow) -> RunState | None:
    """Return the state after the runs that precede a run in its conversation; None if there are none."""
    chain: list[RunRow] = []
    before = row.previous
    while before:
        chain.append(journal.one(before))
        before = chain[-1].previous
    state = None
    for earlier in reversed(chain):
        state = RunState.after(state)
        for each in journal.entries(earlier.id):
            state.apply(from_json(each.entry))
    return state

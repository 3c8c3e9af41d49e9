"""`KeptRuns`: stores the outputs of the steps of a composed skill's call, so that a failed call can be resumed.

The outputs are stored in the records for a day, and only the user who made the call can use them. They are deleted when
the call succeeds.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)

from engine.contract.canonical import digest
from engine.contract.context import Clock
from engine.stores.engine_lock import EngineLock
from engine.stores.records import Records

KEPT_H = 24
MOST_RUNS = 50  # maximum number of runs of one user; older ones are deleted
MOST_BYTES = 4 << 20  # maximum total size of one run's outputs as JSON, in bytes; further outputs are not stored

_SCHEMA = MetaData()
_RUNS = Table(
    "composed_runs",
    _SCHEMA,
    Column("id", String(32), primary_key=True),
    Column("user", String(64), nullable=False, index=True),
    Column("call", String(64), nullable=False),
    Column("since", String(40), nullable=False, index=True),
    Column("engine", String(32), nullable=False),
    Column("running", Boolean, nullable=False),
    Column("bytes", Integer, nullable=False),
)
_STEPS = Table(
    "composed_steps",
    _SCHEMA,
    Column("run", String(32), primary_key=True),
    Column("place", String(400), primary_key=True),
    Column("done", Boolean, nullable=False),
    Column("output", Text, nullable=True),
)


class RunMissing(Exception):
    """A run cannot be resumed. The message says why."""


@dataclass(frozen=True, slots=True)
class ComposedCall:
    """One call of a composed skill. A run can be resumed only by an identical call."""

    user: str
    skill: str
    version: int
    arguments: Mapping[str, Any]

    @property
    def digest(self) -> str:
        return digest([self.skill, self.version, self.arguments])


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run in progress.

    Attributes:
        finished: The outputs of finished steps, by place (such as `titles.3.fetch`).
        unsure: The places of steps that may have been called, but whose output is unknown.
    """

    id: str
    finished: Mapping[str, Any] = field(default_factory=dict)
    unsure: frozenset[str] = frozenset()


class KeptRuns:
    """Stores the runs of one home. All processes that use the home share them. Every method blocks."""

    def __init__(self, records: Records, lock: EngineLock, clock: Clock, new_id: Callable[[], str]) -> None:
        """Create missing tables.

        Args:
            lock: The lock of this engine. The method `close` closes it.
        """
        self._records = records
        self._lock = lock
        self._clock = clock
        self._new_id = new_id
        records.create(_SCHEMA)

    def begin(self, call: ComposedCall) -> OpenRun:
        """Begin a new run."""
        run = OpenRun(self._new_id())
        user = digest(call.user)
        row = {"id": run.id, "user": user, "call": call.digest, "since": self._now().isoformat(), "bytes": 0}
        with self._records.begin() as connection:
            self._forget_old(connection, user)
            connection.execute(insert(_RUNS).values(row | {"engine": self._lock.id, "running": True}))
        return run

    def resume(self, run: str | None, call: ComposedCall) -> OpenRun:
        """Resume the run with this id or, without an id, the latest run of this call.

        Raises:
            RunMissing: There is no such run, or it cannot be resumed.
        """
        named = _RUNS.c.call == call.digest if run is None else _RUNS.c.id == run
        latest = select(_RUNS).where(named, _RUNS.c.user == digest(call.user)).order_by(_RUNS.c.since.desc()).limit(1)
        with self._records.begin() as connection:
            self._forget_old(connection, digest(call.user))
            found = connection.execute(latest).one_or_none()
            if found is None:
                which = repr(run[:40]) if run else "of this call"
                raise RunMissing(f"you have no run {which}. Runs are stored for {KEPT_H} h; start again")
            if found.call != call.digest:
                raise RunMissing(
                    "the run has other arguments or is of another version: use the same arguments, or start again"
                )
            if found.running and self._lock.is_running(found.engine):
                raise RunMissing("the run is still in progress")
            connection.execute(update(_RUNS).where(_RUNS.c.id == found.id).values(running=True, engine=self._lock.id))
            steps = connection.execute(select(_STEPS).where(_STEPS.c.run == found.id)).all()
        finished = {step.place: json.loads(step.output) for step in steps if step.done and step.output is not None}
        return OpenRun(found.id, finished, frozenset(step.place for step in steps if step.place not in finished))

    def started(self, run: OpenRun, place: str) -> None:
        """Record that this step is about to be called."""
        with self._records.begin() as connection:
            _put(connection, run.id, place, done=False, output=None)

    def finished(self, run: OpenRun, place: str, output: Any) -> None:
        """Record the output of a step."""
        text = json.dumps(output)
        of = _RUNS.c.id == run.id
        with self._records.begin() as connection:
            used = connection.execute(select(_RUNS.c.bytes).where(of)).scalar() or 0
            kept = used + len(text) <= MOST_BYTES
            if kept:
                connection.execute(update(_RUNS).where(of).values(bytes=used + len(text)))
            _put(connection, run.id, place, done=True, output=text if kept else None)

    def did_not_happen(self, run: OpenRun, place: str) -> None:
        """Delete the record of a step that had no effect, so that resuming the run calls it again."""
        with self._records.begin() as connection:
            connection.execute(delete(_STEPS).where((_STEPS.c.run == run.id) & (_STEPS.c.place == place)))

    def stop(self, run: OpenRun) -> None:
        """Record that the run failed or was cancelled, so that it can be resumed."""
        with self._records.begin() as connection:
            connection.execute(update(_RUNS).where(_RUNS.c.id == run.id).values(running=False))

    def forget(self, run: OpenRun) -> None:
        """Delete a run that succeeded."""
        with self._records.begin() as connection:
            _forget(connection, [run.id])

    def close(self) -> None:
        self._lock.close()

    def _forget_old(self, connection: Connection, user: str) -> None:
        old = (self._now() - timedelta(hours=KEPT_H)).isoformat()
        late = connection.execute(select(_RUNS.c.id, _RUNS.c.running, _RUNS.c.engine).where(_RUNS.c.since < old)).all()
        newest = select(_RUNS.c.id, _RUNS.c.running, _RUNS.c.engine).where(_RUNS.c.user == user)
        over = connection.execute(newest.order_by(_RUNS.c.since.desc()).offset(MOST_RUNS - 1)).all()
        _forget(
            connection, [one.id for one in (*late, *over) if not (one.running and self._lock.is_running(one.engine))]
        )

    def _now(self) -> Any:
        return self._clock.now().astimezone(UTC)


def _put(connection: Connection, run: str, place: str, *, done: bool, output: str | None) -> None:
    # The write lock of the records is held, so no other process writes between the two statements.
    of = (_STEPS.c.run == run) & (_STEPS.c.place == place)
    if not connection.execute(update(_STEPS).where(of).values(done=done, output=output)).rowcount:
        connection.execute(insert(_STEPS).values(run=run, place=place, done=done, output=output))


def _forget(connection: Connection, runs: list[str]) -> None:
    if runs:
        connection.execute(delete(_STEPS).where(_STEPS.c.run.in_(runs)))
        connection.execute(delete(_RUNS).where(_RUNS.c.id.in_(runs)))

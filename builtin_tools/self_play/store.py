"""`PlayStore`: cycles, held-out tasks and the running loop, in the records."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    case,
    delete,
    func,
    insert,
    select,
    update,
)

from builtin_tools.self_play.cycles import UNFINISHED, Cycle, CycleState, Exercise, HeldOutTask
from engine.contract.context import Clock
from engine.stores.records import Records

_SCHEMA = MetaData()
_CYCLES = Table(
    "self_play_cycles",
    _SCHEMA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("user", String(200), nullable=False),
    Column("state", String(20), nullable=False, index=True),
    Column("weakness", String(300), nullable=False),  # its key; "" until it is chosen
    Column("solved", Boolean, nullable=False),
    Column("cycle", Text, nullable=False),  # JSON
    sqlite_autoincrement=True,  # the number of a cycle marks what it stored, so it is never used again
)
_TASKS = Table(
    "self_play_tasks",
    _SCHEMA,
    Column("cycle", Integer, primary_key=True),
    Column("user", String(200), nullable=False, index=True),
    Column("exercise", Text, nullable=False),  # JSON
    Column("solved", Boolean, nullable=True),
)
_LOOPS = Table(
    "self_play_loops",
    _SCHEMA,
    Column("id", Integer, primary_key=True),  # always 1: one loop at a time
    Column("owner", String(40), nullable=False),
    Column("user", String(200), nullable=False),
    Column("cycles", Integer, nullable=False),
    Column("stop", String(10), nullable=False),  # "", "after" or "now"
    Column("why", Text, nullable=False),  # why it must stop, or has stopped
    Column("running", Boolean, nullable=False),
)
_SOLVED = 10  # a weakness whose task was solved is worked on again only after the others
_CYCLE = TypeAdapter(Cycle)
_EXERCISE = TypeAdapter(Exercise)


class PlayBusy(Exception):
    """A cycle or a loop is running already."""


class UnknownCycle(Exception):
    """There is no cycle of this number."""


@dataclass(frozen=True, slots=True)
class LoopRow:
    """The latest loop.

    Attributes:
        cycles: The number of its cycles that have ended.
        stop: "" to continue, "after" to stop after the cycle, "now" to stop at once.
    """

    owner: str
    user: str
    cycles: int
    stop: str
    why: str
    running: bool


class PlayStore:
    """Reads and writes what self-play records. Every method blocks."""

    def __init__(self, records: Records, clock: Clock) -> None:
        """Create missing tables."""
        self._records = records
        self._clock = clock
        if not records.read_only:
            records.create(_SCHEMA)

    def begin(self, owner: str, user: str, model: str) -> Cycle:
        """Record a new cycle.

        Raises:
            PlayBusy: Another cycle is unfinished.
        """
        with self._records.begin() as connection:
            open_ = connection.execute(select(_CYCLES.c.number).where(_CYCLES.c.state.in_(UNFINISHED))).scalar()
            if open_ is not None:
                raise PlayBusy(f"The cycle {open_} is running. Wait for its end, or stop it with stop_self_play.")
            new = Cycle(0, user, owner, model, started=self._now())
            row = {"user": user, "state": new.state.value, "weakness": "", "solved": False, "cycle": ""}
            number = int(connection.execute(insert(_CYCLES).values(row).returning(_CYCLES.c.number)).scalar_one())
            cycle = replace(new, number=number)
            _write(connection, cycle)
        return cycle

    def save(self, cycle: Cycle) -> Cycle:
        """Store what is known of an unfinished cycle."""
        with self._records.begin() as connection:
            _write(connection, cycle)
        return cycle

    def end(self, cycle: Cycle, results: Mapping[int, bool | None]) -> Cycle:
        """Store how a cycle ended, with what it adds to the held-out tasks and says about them, in one transaction.

        Args:
            cycle: The cycle in its last state. If its task was solved, the exam becomes a held-out task, unless the
                same question is one already.
            results: Whether held-out tasks are solved now, by the number of their cycles; None if this is not known.
        """
        ended = replace(cycle, ended=self._now())
        with self._records.begin() as connection:
            _write(connection, ended)
            for number, solved in results.items():
                connection.execute(update(_TASKS).where(_TASKS.c.cycle == number).values(solved=solved))
            if ended.solved and ended.task is not None and ended.state in (CycleState.KEPT, CycleState.NOTHING):
                known = {each.exercise.question for each in _tasks(connection, ended.user)}
                if ended.task.exam.question not in known:
                    row = {"cycle": ended.number, "user": ended.user, "solved": True}
                    text = _EXERCISE.dump_json(ended.task.exam).decode()
                    connection.execute(insert(_TASKS).values(row | {"exercise": text}))
        return ended

    def undone(self, cycle: Cycle) -> Cycle:
        """Record that a cycle was undone, and delete its held-out task. The results of the others are unknown now."""
        with self._records.begin() as connection:
            _write(connection, cycle)
            connection.execute(delete(_TASKS).where(_TASKS.c.cycle == cycle.number))
            connection.execute(update(_TASKS).where(_TASKS.c.user == cycle.user).values(solved=None))
        return cycle

    def drop_tasks(self, user: str, most: int) -> None:
        """Delete the oldest held-out tasks of a user above a number."""
        with self._records.begin() as connection:
            numbers = [each.cycle for each in _tasks(connection, user)]
            connection.execute(delete(_TASKS).where(_TASKS.c.cycle.in_(numbers[: max(0, len(numbers) - most)])))

    def unfinished(self) -> list[Cycle]:
        """Return the cycles that are running or being undone."""
        with self._records.read() as connection:
            query = select(_CYCLES.c.cycle).where(_CYCLES.c.state.in_(UNFINISHED)).order_by(_CYCLES.c.number.desc())
            return [_CYCLE.validate_json(text) for text in connection.execute(query).scalars()]

    def one(self, number: int) -> Cycle:
        """Return a cycle.

        Raises:
            UnknownCycle: There is none of this number.
        """
        with self._records.read() as connection:
            text = connection.execute(select(_CYCLES.c.cycle).where(_CYCLES.c.number == number)).scalar()
        if text is None:
            raise UnknownCycle(f"There is no cycle {number}. knackbox play list shows all cycles.")
        return _CYCLE.validate_json(text)

    def cycles(self, limit: int | None = None) -> list[Cycle]:
        """Return the cycles, newest first."""
        with self._records.read() as connection:
            query = select(_CYCLES.c.cycle).order_by(_CYCLES.c.number.desc()).limit(limit)
            return [_CYCLE.validate_json(text) for text in connection.execute(query).scalars()]

    def tries(self) -> dict[str, int]:
        """Return how many cycles worked on each weakness, by its key. A cycle that solved its task counts as ten."""
        weight = func.sum(case((_CYCLES.c.solved, _SOLVED), else_=1))
        query = select(_CYCLES.c.weakness, weight).where(_CYCLES.c.weakness != "").group_by(_CYCLES.c.weakness)
        with self._records.read() as connection:
            return {str(key): int(count) for key, count in connection.execute(query)}

    def tasks(self, user: str) -> list[HeldOutTask]:
        """Return the held-out tasks of a user, oldest first."""
        with self._records.read() as connection:
            return _tasks(connection, user)

    # The loop.

    def begin_loop(self, owner: str, user: str, is_running: Callable[[str], bool]) -> None:
        """Record a new loop.

        Raises:
            PlayBusy: A loop is running.
        """
        with self._records.begin() as connection:
            known = _loop(connection)
            if known is not None and known.running and is_running(known.owner):
                raise PlayBusy("A loop is running already. Stop it with stop_self_play.")
            connection.execute(delete(_LOOPS))
            row = {"id": 1, "owner": owner, "user": user, "cycles": 0, "stop": "", "why": "", "running": True}
            connection.execute(insert(_LOOPS).values(row))

    def loop(self) -> LoopRow | None:
        """Return the latest loop; None if there was none."""
        with self._records.read() as connection:
            return _loop(connection)

    def count_cycle(self) -> None:
        """Record that a cycle of the loop has ended."""
        with self._records.begin() as connection:
            connection.execute(update(_LOOPS).values(cycles=_LOOPS.c.cycles + 1))

    def stop_loop(self, how: str, why: str) -> None:
        """Ask the running loop to stop. Stopping at once prevails over stopping after the cycle."""
        with self._records.begin() as connection:
            wanted = _LOOPS.c.running & (_LOOPS.c.stop != "now")
            connection.execute(update(_LOOPS).where(wanted).values(stop=how, why=why))

    def end_loop(self, why: str) -> None:
        """Record that the loop has ended."""
        with self._records.begin() as connection:
            connection.execute(update(_LOOPS).values(running=False, why=why))

    def _now(self) -> float:
        return self._clock.now().timestamp()


def cycle_json(cycle: Cycle) -> dict[str, Any]:
    """Return a cycle as a JSON object, without what only undoing needs."""
    shown: dict[str, Any] = json.loads(_CYCLE.dump_json(cycle))
    if shown["change"] is not None:
        del shown["change"]["before"]
    return shown


def _write(connection: Connection, cycle: Cycle) -> None:
    values = {
        "state": cycle.state.value,
        "weakness": cycle.weakness.key[:300] if cycle.weakness is not None else "",
        "solved": cycle.solved,
        "cycle": _CYCLE.dump_json(cycle).decode(),
    }
    connection.execute(update(_CYCLES).where(_CYCLES.c.number == cycle.number).values(values))


def _tasks(connection: Connection, user: str) -> list[HeldOutTask]:
    rows: Sequence[Any] = connection.execute(select(_TASKS).where(_TASKS.c.user == user).order_by(_TASKS.c.cycle)).all()
    return [HeldOutTask(row.cycle, _EXERCISE.validate_json(row.exercise), row.solved) for row in rows]


def _loop(connection: Connection) -> LoopRow | None:
    row = connection.execute(select(_LOOPS)).first()
    return None if row is None else LoopRow(row.owner, row.user, row.cycles, row.stop, row.why, row.running)

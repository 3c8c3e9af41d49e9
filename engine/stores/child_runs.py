"""`ChildRunStore`: the runs that other runs have started, with their parents, in the database of the run journal.

A row is added before its run begins. It belongs to one engine, which works on the run. Rows of engines that are not
running any more are adopted by others and queued again. A row that has ended never changes its state again.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    RowMapping,
    String,
    Table,
    Text,
    column,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    table,
    update,
)

from engine.contract.child_runs import ChildRun, ChildState, RunLimits
from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.contract.turn import Turn
from engine.stores.engine_lock import EngineLock
from engine.stores.records import Records
from engine.stores.run_inbox import NewMessage, add_message, withdraw_message

KEPT = 5_000  # child runs that have ended
_CANCELLED = "cancelled"  # `Finish.CANCELLED`, of a layer above
_SCHEMA = MetaData()
_CHILDREN = Table(
    "child_runs",
    _SCHEMA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(40), nullable=False, unique=True),
    Column("swarm", String(32), nullable=False),
    Column("position", Integer, nullable=False),
    Column("parent", String(40), nullable=False),
    Column("root", String(40), nullable=False),
    Column("depth", Integer, nullable=False),
    Column("user", String(200), nullable=False),
    Column("agent", String(200), nullable=False),
    Column("message", Text, nullable=False),
    Column("turn", Text, nullable=False),  # JSON
    Column("limits", Text, nullable=False),  # JSON
    Column("state", String(10), nullable=False),
    Column("holder", String(32), nullable=False),
    Column("cancelled", Boolean, nullable=False),
    Column("told", Boolean, nullable=False),
    Column("settled", Boolean, nullable=False),
    Column("finish", String(30), nullable=False),
    Column("answer", Text, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("created", String(40), nullable=False),
    Column("ended", String(40), nullable=True),
)
_UNENDED = _CHILDREN.c.state != literal_column(f"'{ChildState.ENDED.value}'")
Index("child_runs_unended", _CHILDREN.c.holder, sqlite_where=_UNENDED)
Index("child_runs_of_parent", _CHILDREN.c.parent)
Index("child_runs_of_swarm", _CHILDREN.c.swarm)
Index("child_runs_of_creator", _CHILDREN.c.user, _CHILDREN.c.agent)
_RUNS = table("runs", column("id"), column("state"), column("finish"), column("holder"), column("cancel"))
_TURN = TypeAdapter(Turn)
_COMPUTED = {"query", "agent_key", "share"}


class TooManyChildren(Exception):
    """A tree of runs has as many child runs that have not ended as it may have."""


class OtherTasks(Exception):
    """The swarm exists already, with other tasks."""


@dataclass(frozen=True, slots=True)
class RunnerStep:
    """What one engine has to do next for its child runs.

    Attributes:
        claimed: The child runs to work on from now on.
        idle: Whether all child runs of the home have ended.
    """

    claimed: Sequence[ChildRun] = ()
    idle: bool = False


class ChildRunStore:
    """The child runs of one home, shared by all its processes. Every method blocks."""

    def __init__(self, records: Records, lock: EngineLock, clock: Clock, *, kept: int = KEPT) -> None:
        """Create missing tables.

        Args:
            records: The database, with the tables of `RunJournal`.
            lock: The lock of this engine.
            clock: The source of time.
            kept: How many of the newest rows to keep. Those that have not ended are kept in any case.
        """
        self._records = records
        self._lock = lock
        self._clock = clock
        self._kept = kept
        records.create(_SCHEMA)

    def add(self, children: Sequence[ChildRun], most: int) -> bool:
        """Add the child runs of one swarm, which belong to this engine. Return False if they have been added before.

        Args:
            children: All child runs of one swarm.
            most: How many child runs of one tree may not have ended.

        Raises:
            TooManyChildren: There would be more. Nothing was added.
            OtherTasks: The swarm exists with other messages. Nothing was added.
        """
        first = children[0]
        with self._records.begin() as connection:
            there = connection.execute(_of_swarm(first.swarm)).mappings().all()
            if there:
                if [row["message"] for row in there] != [child.message for child in children]:
                    raise OtherTasks(first.swarm)
                return False
            in_tree = _UNENDED & (_CHILDREN.c.root == first.root)
            unended = connection.execute(select(func.count()).select_from(_CHILDREN).where(in_tree)).scalar() or 0
            if unended + len(children) > most:
                raise TooManyChildren(f"{unended} child runs have not ended, and {most} are allowed.")
            connection.execute(insert(_CHILDREN), [self._values(child) for child in children])
            self._sweep(connection)
            return True

    def step(self, free: Mapping[int, int], *, adopt_all: bool, busy: Sequence[str] = ()) -> RunnerStep:
        """Cancel what has to be cancelled, adopt child runs, and claim queued ones.

        Args:
            free: How many child runs of each depth may be claimed.
            adopt_all: Whether to adopt all child runs of engines that have ended; if not, only those in trees of runs
                that this engine works on.
            busy: Child runs that must not be claimed now.
        """
        with self._records.read() as connection:
            if not connection.execute(select(_CHILDREN.c.id).where(_UNENDED).limit(1)).first():
                return RunnerStep(idle=True)
        with self._records.begin() as connection:
            self._pass_on_cancellations(connection)
            self._adopt(connection, adopt_all=adopt_all)
            claimed = [child for depth, most in free.items() for child in self._claim(connection, depth, most, busy)]
        return RunnerStep(claimed)

    def end(self, child: str, finish: str, answer: str, tokens: int) -> bool:
        """Record how a child run ended. Return False if that is recorded already."""
        values = {"state": ChildState.ENDED, "finish": finish, "answer": answer, "tokens": tokens, "ended": self._now()}
        with self._records.begin() as connection:
            return _update(connection, _UNENDED & (_CHILDREN.c.id == child), values) > 0

    def put_back(self, child: str) -> None:
        """Queue a child run again that has been claimed, because another process works on it at the moment."""
        with self._records.begin() as connection:
            _update(connection, _UNENDED & (_CHILDREN.c.id == child), {"state": ChildState.QUEUED})

    def cancel(self, children: Sequence[str]) -> None:
        """Ask to cancel child runs and everything that they have started."""
        with self._records.begin() as connection:
            _update(connection, _UNENDED & _CHILDREN.c.id.in_(children), {"cancelled": True})
            self._pass_on_cancellations(connection)

    def settle(self, children: Sequence[str], reader: str = "") -> list[ChildRun]:
        """Mark child runs that have ended as told and settled, and return those that were not settled yet.

        Args:
            children: The ids of the child runs.
            reader: The run that gets their answers now. Messages with these answers that it has not read are withdrawn.
        """
        ended = _CHILDREN.c.id.in_(children) & (_CHILDREN.c.state == ChildState.ENDED)
        with self._records.begin() as connection:
            every = [_child(row) for row in connection.execute(select(_CHILDREN).where(ended)).mappings()]
            new = _CHILDREN.c.settled.is_(False)
            unsettled = set(connection.execute(select(_CHILDREN.c.id).where(ended & new)).scalars())
            _update(connection, ended, {"told": True, "settled": True})
            for child in every:
                if reader and child.parent == reader:
                    withdraw_message(connection, reader, message_sender(child.swarm), child.id)
        return [child for child in every if child.id in unsettled]

    def tell_parents(self, swarm: str, text: Callable[[ChildRun], str]) -> None:
        """Send a message to the parent of each child run of a swarm that has ended, unless the parent has ended, too.

        Args:
            swarm: The id of the swarm.
            text: Returns the text of the message.
        """
        with self._records.begin() as connection:
            going_on = select(_RUNS.c.id).where(_RUNS.c.state != "ended")
            ended = (_CHILDREN.c.state == ChildState.ENDED) & _CHILDREN.c.told.is_(False)
            new = _of_swarm(swarm).where(ended & _CHILDREN.c.parent.in_(going_on))
            children = [_child(row) for row in connection.execute(new).mappings()]
            for child in children:
                message = NewMessage(text(child), sender=message_sender(child.swarm), key=child.id)
                add_message(connection, child.parent, message, self._now())
            _update(connection, _CHILDREN.c.id.in_([child.id for child in children]), {"told": True})

    def untold(self, user: str, agent: str) -> list[ChildRun]:
        """Return the child runs that have ended without anybody being told, because the run that started them ended."""
        whose = (_CHILDREN.c.user == user) & (_CHILDREN.c.agent == agent) & (_CHILDREN.c.parent != "")
        ended = (_CHILDREN.c.state == ChildState.ENDED) & _CHILDREN.c.told.is_(False)
        parent_ended = _CHILDREN.c.parent.in_(select(_RUNS.c.id).where(_RUNS.c.state == "ended"))
        query = select(_CHILDREN).where(whose & ended & parent_ended & (_CHILDREN.c.finish != _CANCELLED))
        with self._records.read() as connection:
            return [_child(row) for row in connection.execute(query.order_by(_CHILDREN.c.number)).mappings()]

    def swarm(self, swarm: str) -> list[ChildRun]:
        """Return the child runs of a swarm in order; none if there is no such swarm."""
        with self._records.read() as connection:
            return [_child(row) for row in connection.execute(_of_swarm(swarm)).mappings()]

    def one(self, child: str) -> ChildRun | None:
        """Return a child run; None if the run is not the child of another."""
        with self._records.read() as connection:
            row = connection.execute(select(_CHILDREN).where(_CHILDREN.c.id == child)).mappings().one_or_none()
        return None if row is None else _child(row)

    def recent(self, user: str, agent: str, limit: int = 20) -> list[str]:
        """Return the ids of the latest swarms that an agent has started, newest first."""
        whose = (_CHILDREN.c.user == user) & (_CHILDREN.c.agent == agent)
        newest = func.max(_CHILDREN.c.number)
        query = select(_CHILDREN.c.swarm).where(whose).group_by(_CHILDREN.c.swarm).order_by(newest.desc()).limit(limit)
        with self._records.read() as connection:
            return list(connection.execute(query).scalars())

    def unended(self) -> list[ChildRun]:
        """Return all child runs that have not ended, oldest first."""
        with self._records.read() as connection:
            query = select(_CHILDREN).where(_UNENDED).order_by(_CHILDREN.c.number)
            return [_child(row) for row in connection.execute(query).mappings()]

    def _pass_on_cancellations(self, connection: Connection) -> None:
        """Cancel the children of runs that are cancelled, down the tree. Those that have not begun end."""
        cancelled_runs = select(_RUNS.c.id).where((_RUNS.c.state == "ended") & (_RUNS.c.finish == _CANCELLED))
        upper = _CHILDREN.alias()
        cancelled_children = select(upper.c.id).where(upper.c.cancelled)
        of_cancelled = or_(_CHILDREN.c.parent.in_(cancelled_runs), _CHILDREN.c.parent.in_(cancelled_children))
        while _update(connection, _UNENDED & _CHILDREN.c.cancelled.is_(False) & of_cancelled, {"cancelled": True}):
            pass
        begun = _CHILDREN.c.id.in_(select(_RUNS.c.id))  # an engine that adopts it ends its run
        queued = (_CHILDREN.c.state == ChildState.QUEUED) & _CHILDREN.c.cancelled & ~begun
        ended = {"state": ChildState.ENDED, "finish": _CANCELLED, "ended": self._now()}
        _update(connection, queued, ended | {"answer": "Cancelled before it began."})
        started = select(_CHILDREN.c.id).where((_CHILDREN.c.state == ChildState.STARTED) & _CHILDREN.c.cancelled)
        running = _RUNS.c.id.in_(started) & (_RUNS.c.state == "open") & _RUNS.c.cancel.is_(False)
        connection.execute(update(_RUNS).where(running).values(cancel=True))

    def _adopt(self, connection: Connection, *, adopt_all: bool) -> None:
        """Take over the child runs of engines that are not running any more."""
        holders = connection.execute(select(_CHILDREN.c.holder).where(_UNENDED).distinct()).scalars()
        gone = [holder for holder in holders if not self._lock.is_running(holder)]
        if not gone:
            return
        orphans = _UNENDED & _CHILDREN.c.holder.in_(gone)
        if not adopt_all:
            mine = select(_RUNS.c.id).where(_RUNS.c.holder == self._lock.id)
            of_mine = or_(_CHILDREN.c.parent.in_(mine), _CHILDREN.c.root.in_(mine))
            orphans = orphans & or_(of_mine, _CHILDREN.c.cancelled)  # a cancelled one only has to be ended
        _update(connection, orphans, {"holder": self._lock.id, "state": ChildState.QUEUED})

    def _claim(self, connection: Connection, depth: int, most: int, busy: Sequence[str]) -> list[ChildRun]:
        """Start queued child runs of this engine: of each tree in turn, those with the fewest running ones first."""
        if most <= 0:
            return []
        mine = (_CHILDREN.c.holder == self._lock.id) & (_CHILDREN.c.depth == depth)
        running = (
            select(_CHILDREN.c.root, func.count().label("count"))
            .where(mine & (_CHILDREN.c.state == ChildState.STARTED))
            .group_by(_CHILDREN.c.root)
            .subquery()
        )
        turn = func.row_number().over(partition_by=_CHILDREN.c.root, order_by=_CHILDREN.c.number)
        place = (turn + func.coalesce(running.c.count, 0)).label("place")
        query = (
            select(_CHILDREN, place)
            .select_from(_CHILDREN.outerjoin(running, running.c.root == _CHILDREN.c.root))
            .where(mine & (_CHILDREN.c.state == ChildState.QUEUED) & _CHILDREN.c.id.not_in(busy))
            .order_by(place, _CHILDREN.c.number)
            .limit(most)
        )
        rows = connection.execute(query).mappings().all()
        _update(connection, _CHILDREN.c.id.in_([row["id"] for row in rows]), {"state": ChildState.STARTED})
        return [_child(row) for row in rows]

    def _values(self, child: ChildRun) -> dict[str, Any]:
        values = {name: getattr(child, name) for name in ("id", "swarm", "position", "parent", "root", "depth")}
        values |= {"user": child.user[:200], "agent": child.agent[:200], "message": child.message}
        values |= {"turn": json.dumps(_TURN.dump_python(child.turn, mode="json", exclude=_COMPUTED))}
        values |= {"limits": json.dumps(asdict(child.limits)), "state": ChildState.QUEUED, "holder": self._lock.id}
        values |= {"cancelled": False, "told": False, "settled": False, "finish": "", "answer": "", "tokens": 0}
        return values | {"created": self._now(), "ended": None}

    def _sweep(self, connection: Connection) -> None:
        newest = connection.execute(select(func.max(_CHILDREN.c.number))).scalar() or 0
        old = (_CHILDREN.c.number <= newest - self._kept) & (_CHILDREN.c.state == ChildState.ENDED)
        connection.execute(delete(_CHILDREN).where(old))

    def _now(self) -> str:
        return self._clock.now().isoformat()


def message_sender(swarm: str) -> str:
    """Return the sender of messages about the child runs of a swarm."""
    return f"swarm:{swarm}"


def _of_swarm(swarm: str) -> Any:
    return select(_CHILDREN).where(_CHILDREN.c.swarm == swarm).order_by(_CHILDREN.c.position)


def _update(connection: Connection, where: Any, values: Mapping[str, Any]) -> int:
    return connection.execute(update(_CHILDREN).where(where).values(**values)).rowcount


def _child(row: RowMapping) -> ChildRun:
    try:
        turn, limits = _TURN.validate_json(row["turn"]), RunLimits(**json.loads(row["limits"]))
    except (ValueError, TypeError) as error:
        raise ConfigError(f"The child run {row['id']} was stored by another release and cannot be read.") from error
    return ChildRun(
        row["id"],
        row["swarm"],
        row["position"],
        row["parent"],
        row["root"],
        row["depth"],
        row["user"],
        row["agent"],
        row["message"],
        turn,
        limits,
        ChildState(row["state"]),
        row["finish"],
        row["answer"],
        row["tokens"],
        cancelled=row["cancelled"],
        told=row["told"],
        settled=row["settled"],
    )

"""`ProgramStore`: what programs of runs have called and been answered, so that they can run again.

It is in the database of the journal of runs, because it contains the same texts, and is kept as long as its run.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Float,
    Integer,
    MetaData,
    RowMapping,
    Select,
    String,
    Table,
    Text,
    delete,
    insert,
    literal_column,
    select,
    text,
    update,
)

from engine.contract.context import Clock
from engine.stores.records import Records, add_missing_columns, missing_columns
from sandbox.secrets.redactor import Redactor

_SCHEMA = MetaData()
_PROGRAMS = Table(
    "programs",
    _SCHEMA,
    Column("id", String(200), primary_key=True),  # the id of the call of `execute`
    Column("run", String(64), nullable=False, index=True),
    Column("user", String(200), nullable=False),
    Column("code", String(64), nullable=False),  # a digest of the code and everything else that it runs with
    Column("seed", String(64), nullable=False),
    Column("began", Float, nullable=False, index=True),
    # The columns of later releases, which are null in older rows:
    Column("source", Text, nullable=True),  # the Python code, if it is all that decides what the program does
    Column("result", Text, nullable=True),  # JSON: the value and the output of a program that succeeded
)
_CALLS = Table(
    "program_calls",
    _SCHEMA,
    Column("program", String(200), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("arguments", Text, nullable=False),  # JSON
    Column("digest", String(64), nullable=False),  # of the name and the arguments
    Column("readings", Text, nullable=False),  # JSON: what the program has read from its clock before the call
    Column("answer", Text, nullable=True),  # JSON; None while it is unknown
)
_KEPT = timedelta(days=30)
_LONGEST = 16 << 20  # characters of an answer; a longer one is not kept
LONGEST_SOURCE = 64 << 10  # characters of the source of a program; a longer one is not kept
LONGEST_RESULT = 64 << 10  # characters of its result as JSON; likewise
MOST_FINISHED = 200  # programs that are returned at once
LOST: Mapping[str, Any] = {"lost": True}  # kept in place of an answer that is too long


@dataclass(slots=True)
class StoredCall:
    """A call that a program made. `answer` is None if it is unknown whether and how it ended."""

    position: int
    name: str
    arguments: Mapping[str, Any]
    digest: str
    readings: Sequence[float] = ()
    answer: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class StoredProgram:
    """A program that has begun, with its calls in order. `seed` is that of its randomness."""

    id: str
    seed: str
    calls: Sequence[StoredCall] = ()


@dataclass(frozen=True, slots=True)
class FinishedProgram:
    """A program of a run that succeeded, with all its calls and answers.

    Attributes:
        id: The id of the call of `execute`.
        run: The run that it belongs to.
        request: What the user asked for in this run, as far as the journal of runs keeps it.
        source: Its Python code.
        value: The value of its last expression, as JSON.
        stdout: What it printed.
    """

    id: str
    run: str
    user: str
    request: str
    source: str
    value: Any
    stdout: str
    calls: Sequence[StoredCall] = ()


class ProgramStore:
    """The stored programs of one engine. All methods block. `records` is the database with the journal of runs."""

    def __init__(self, records: Records, clock: Clock, redactor: Redactor | None = None) -> None:
        """Create the tables. `redactor` replaces the values of secrets in what is stored."""
        self._records = records
        self._clock = clock
        self._redactor = redactor
        records.create(_SCHEMA)
        with records.read() as connection:
            upgrade = bool(missing_columns(connection, _PROGRAMS))
        if upgrade:
            with records.begin() as connection:
                add_missing_columns(connection, _PROGRAMS)

    def has(self, program: str) -> bool:
        """Return whether a program of this id has begun."""
        with self._records.read() as connection:
            found = connection.execute(select(_PROGRAMS.c.id).where(_PROGRAMS.c.id == program)).first()
        return found is not None

    def open(
        self, program: str, run: str, user: str, code: str, seed: str, *, source: str | None = None
    ) -> StoredProgram:
        """Return the stored program of this id, or begin a new one with this seed.

        A program of the same id with other code is replaced.

        Args:
            code: A digest of everything that decides what the program does.
            source: Its Python code; None if there is more that decides what it does. Long code is not kept.
        """
        if source is not None:
            source = self._plain({"source": source})["source"] if len(source) <= LONGEST_SOURCE else None
        with self._records.begin() as connection:
            old = connection.execute(select(_PROGRAMS).where(_PROGRAMS.c.id == program)).mappings().first()
            if old is not None and old["code"] == code and old["user"] == user:
                rows = connection.execute(
                    select(_CALLS).where(_CALLS.c.program == program).order_by(_CALLS.c.position)
                ).mappings()
                return StoredProgram(program, old["seed"], [_call(row) for row in rows])
            now = self._clock.now()
            runs: Select[Any] = select(literal_column("id")).select_from(text("runs"))
            over = (_PROGRAMS.c.began < (now - _KEPT).timestamp()) | _PROGRAMS.c.run.not_in(runs)
            expired = select(_PROGRAMS.c.id).where(over)
            gone = (_CALLS.c.program == program) | _CALLS.c.program.in_(expired)
            connection.execute(delete(_CALLS).where(gone))
            connection.execute(
                delete(_PROGRAMS).where((_PROGRAMS.c.id == program) | _PROGRAMS.c.id.in_(expired.scalar_subquery()))
            )
            connection.execute(
                insert(_PROGRAMS).values(
                    id=program, run=run, user=user, code=code, seed=seed, began=now.timestamp(), source=source
                )
            )
        return StoredProgram(program, seed)

    def write(self, program: str, begun: Sequence[StoredCall], answered: Sequence[StoredCall]) -> None:
        """Store calls that have begun, and the answers of calls that are stored, in one transaction."""
        with self._records.begin() as connection:
            if begun:
                connection.execute(insert(_CALLS), [self._row(program, call) for call in begun])
            for call in answered:
                connection.execute(
                    update(_CALLS)
                    .where(_CALLS.c.program == program, _CALLS.c.position == call.position)
                    .values(answer=self._text(call.answer))
                )

    def finish(self, program: str, value: Any, stdout: str) -> None:
        """Store the result of a program that succeeded, unless it is long or not JSON."""
        try:
            text_ = json.dumps(self._plain({"value": value, "stdout": stdout}), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return
        if len(text_) <= LONGEST_RESULT:
            with self._records.begin() as connection:
                connection.execute(update(_PROGRAMS).where(_PROGRAMS.c.id == program).values(result=text_))

    def finished(self, user: str | None = None, name: str = "", most: int = MOST_FINISHED) -> list[FinishedProgram]:
        """Return programs that succeeded and whose source is kept, latest first.

        Args:
            user: The user whose programs to return; None for all users.
            name: The id of a run or of a program, whose programs to return; "" for all.
        """
        wanted = _PROGRAMS.c.source.is_not(None) & _PROGRAMS.c.result.is_not(None)
        if user is not None:
            wanted &= _PROGRAMS.c.user == user
        if name:
            wanted &= (_PROGRAMS.c.run == name) | (_PROGRAMS.c.id == name)
        query = select(_PROGRAMS).where(wanted).order_by(_PROGRAMS.c.began.desc(), _PROGRAMS.c.id.desc()).limit(most)
        with self._records.read() as connection:
            rows = connection.execute(query).mappings().all()
            calls: dict[str, list[StoredCall]] = {row["id"]: [] for row in rows}
            of_these = select(_CALLS).where(_CALLS.c.program.in_(calls)).order_by(_CALLS.c.program, _CALLS.c.position)
            for row in connection.execute(of_these).mappings():
                calls[row["program"]].append(_call(row))
            requests = self._requests(connection, {row["run"] for row in rows})
        return [_finished(row, requests.get(row["run"], ""), calls[row["id"]]) for row in rows]

    def _requests(self, connection: Connection, runs: Collection[str]) -> dict[str, str]:
        """Return what the user asked for in each run. The journal of runs is in the same database."""
        if not runs:
            return {}
        number: ColumnElement[str] = literal_column("id")
        message: ColumnElement[str] = literal_column("message")
        rows = connection.execute(select(number, message).select_from(text("runs")).where(number.in_(list(runs))))
        return {str(run): str(said) for run, said in rows}

    def forget(self, program: str, position: int) -> None:
        """Delete a call."""
        with self._records.begin() as connection:
            connection.execute(delete(_CALLS).where(_CALLS.c.program == program, _CALLS.c.position == position))

    def _row(self, program: str, call: StoredCall) -> dict[str, Any]:
        return {
            "program": program,
            "position": call.position,
            "name": call.name,
            "arguments": json.dumps(self._plain(call.arguments)),
            "digest": call.digest,
            "readings": json.dumps(list(call.readings)),
            "answer": self._text(call.answer),
        }

    def _text(self, answer: Mapping[str, Any] | None) -> str | None:
        if answer is None:
            return None
        text = json.dumps(self._plain(answer))
        return text if len(text) <= _LONGEST else json.dumps(LOST)

    def _plain(self, value: Mapping[str, Any]) -> Any:
        return dict(value) if self._redactor is None else self._redactor.data(dict(value))


def _finished(row: RowMapping, request: str, calls: Sequence[StoredCall]) -> FinishedProgram:
    result = json.loads(row["result"])
    return FinishedProgram(
        row["id"], row["run"], row["user"], request, row["source"], result["value"], result["stdout"], calls
    )


def _call(row: RowMapping) -> StoredCall:
    answer = None if row["answer"] is None else json.loads(row["answer"])
    readings = json.loads(row["readings"])
    return StoredCall(row["position"], row["name"], json.loads(row["arguments"]), row["digest"], readings, answer)

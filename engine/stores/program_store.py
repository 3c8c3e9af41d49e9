"""`ProgramStore`: what programs of runs have called and been answered, so that they can run again.

It is in the database of the journal of runs, because it contains the same texts, and is kept as long as its run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    Column,
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
from engine.stores.records import Records
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


class ProgramStore:
    """The stored programs of one engine. All methods block. `records` is the database with the journal of runs."""

    def __init__(self, records: Records, clock: Clock, redactor: Redactor | None = None) -> None:
        """Create the tables. `redactor` replaces the values of secrets in what is stored."""
        self._records = records
        self._clock = clock
        self._redactor = redactor
        records.create(_SCHEMA)

    def has(self, program: str) -> bool:
        """Return whether a program of this id has begun."""
        with self._records.read() as connection:
            found = connection.execute(select(_PROGRAMS.c.id).where(_PROGRAMS.c.id == program)).first()
        return found is not None

    def open(self, program: str, run: str, user: str, code: str, seed: str) -> StoredProgram:
        """Return the stored program of this id, or begin a new one with this seed.

        A program of the same id with other code is replaced.
        """
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
                insert(_PROGRAMS).values(id=program, run=run, user=user, code=code, seed=seed, began=now.timestamp())
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


def _call(row: RowMapping) -> StoredCall:
    answer = None if row["answer"] is None else json.loads(row["answer"])
    readings = json.loads(row["readings"])
    return StoredCall(row["position"], row["name"], json.loads(row["arguments"]), row["digest"], readings, answer)

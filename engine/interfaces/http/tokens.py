"""`Tokens`: who may speak to the HTTP interface, and as whom (FACE-3). What is kept of a token is its hash.

A token is 32 random bytes, so that a plain SHA-256 of it cannot be guessed back. It is told once, when it is made.
"""

import hashlib
import hmac
import json
import re
import secrets
import threading
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Boolean, Column, MetaData, String, Table, Text, delete, select
from sqlalchemy.exc import IntegrityError

from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.contract.spec import PermissionLevel
from engine.stores.records import Records

PREFIX = "knackbox_"  # so that whoever finds one, a scanner of repositories among them, knows what it is
GENERATION = "http_tokens"
_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_LONGEST = 200  # characters of a user or an agent, as their columns elsewhere have it

_SCHEMA = MetaData()
_TOKENS = Table(
    "http_tokens",
    _SCHEMA,
    Column("name", String(64), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("user", String(200), nullable=False),
    Column("agent", String(200), nullable=False),
    Column("permission", String(10), nullable=False),
    Column("modules", Text, nullable=False),
    Column("caps", Text, nullable=False),
    Column("approves", Boolean, nullable=False),
    Column("made", String(40), nullable=False),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a token stands for. Nothing in a request can change any of it.

    name: of the token. modules: those its calls may reach; None allows all. caps: what its agent holds.
    approves: it may answer for calls of its user that wait for a person, never for its own; with the permission admin
        or owner, for those of all users. sha256: of the token itself, when it was found by one.
    """

    name: str
    user: str
    permission: PermissionLevel = "user"
    agent: str = "main"
    modules: frozenset[str] | None = None
    caps: frozenset[str] = field(default_factory=frozenset)
    approves: bool = False
    sha256: str = field(default="", compare=False, repr=False)


class Tokens:
    """In the records, so that every process on one home sees at once what was added or removed. Methods block."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: int | None = None
        self._known: list[tuple[str, Caller]] = []
        records.create(_SCHEMA)

    def add(self, caller: Caller) -> str:
        """Make a token; it cannot be had again. Raises ConfigError for a name that is taken or cannot be one."""
        if not _NAME.match(caller.name):
            raise ConfigError(
                f"{caller.name!r} cannot name a token. Take letters, digits, dots, - and _, 64 at the most."
            )
        for what, text in (("user", caller.user), ("agent", caller.agent)):
            if not text or len(text) > _LONGEST or not text.isprintable():
                raise ConfigError(f"The {what} of a token takes 1 to {_LONGEST} printable characters.")
        token = PREFIX + secrets.token_urlsafe(_BYTES)
        try:
            with self._records.begin() as connection:
                connection.execute(
                    _TOKENS.insert().values(_row_of(caller, _hash(token), self._clock.now().isoformat()))
                )
                self._records.bump(GENERATION, connection)
        except IntegrityError:
            raise ConfigError(
                f"There is a token called {caller.name} already. Take another name, or remove that one first."
            ) from None
        return token

    def remove(self, name: str) -> bool:
        """From now on it is refused, by servers that run, too. False when there is none of this name."""
        with self._records.begin() as connection:
            found = connection.execute(delete(_TOKENS).where(_TOKENS.c.name == name)).rowcount
            self._records.bump(GENERATION, connection)
        return bool(found)

    def all(self) -> list[Caller]:
        """By name."""
        return [caller for _, caller in self._current()]

    def find(self, token: str) -> Caller | None:
        """Whose token it is; None for one that nobody has."""
        given = _hash(token)
        found = None
        for kept, caller in self._current():  # all of them, so that the time tells nothing
            if hmac.compare_digest(given, kept):
                found = caller
        return found

    def holds(self, caller: Caller) -> bool:
        """Whether the token by which this caller was found is still there, for the same caller. One that was made anew
        under its name is another."""
        return any(kept == caller.sha256 and known == caller for kept, known in self._current())

    def _current(self) -> list[tuple[str, Caller]]:
        with self._lock:
            generation = self._records.generation(GENERATION)  # read first: a change after it is seen next time
            if generation != self._seen:
                with self._records.read() as connection:
                    rows = connection.execute(select(_TOKENS).order_by(_TOKENS.c.name)).mappings().all()
                self._known = [(row["sha256"], _caller_of(dict(row))) for row in rows]
                self._seen = generation
            return self._known


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _row_of(caller: Caller, sha256: str, made: str) -> dict[str, Any]:
    return {
        "name": caller.name,
        "sha256": sha256,
        "user": caller.user,
        "agent": caller.agent,
        "permission": caller.permission,
        "modules": json.dumps(None if caller.modules is None else sorted(caller.modules)),
        "caps": json.dumps(sorted(caller.caps)),
        "approves": caller.approves,
        "made": made,
    }


def _caller_of(row: dict[str, Any]) -> Caller:
    modules = json.loads(row["modules"])
    return Caller(
        name=row["name"],
        user=row["user"],
        permission=row["permission"],
        agent=row["agent"],
        modules=None if modules is None else frozenset(modules),
        caps=frozenset(json.loads(row["caps"])),
        approves=row["approves"],
        sha256=row["sha256"],
    )

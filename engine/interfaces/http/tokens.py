"""`Tokens`: the tokens of the HTTP interface and their callers (FACE-3). Only hashes of the tokens are stored.

A token is 32 random bytes, so it cannot be guessed from its SHA-256. It is shown once, when it is created.
"""

import asyncio
import hashlib
import hmac
import json
import re
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Boolean, Column, MetaData, String, Table, Text, delete, select
from sqlalchemy.exc import IntegrityError

from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.contract.spec import PermissionLevel
from engine.stores.records import Records

PREFIX = "knackbox_"  # lets secret scanners recognize a leaked token
GENERATION = "http_tokens"
_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_MAX_LENGTH = 200  # characters in the name of a user or an agent, as in the columns of other tables

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
    """The identity and the permissions of a token. Nothing in a request can change them.

    Attributes:
        name: The name of the token.
        user: The user that calls run as.
        permission: The user's permission level.
        agent: The agent that calls run as.
        modules: Modules whose tools may be called. None allows all.
        caps: The caps of the agent.
        approves: Whether the token may approve calls that its user makes with other tokens. With the permission admin
            or owner, it may approve the calls of all users.
        sha256: The hash of the token, if the caller was found by its token.
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
    """Stores tokens in the records, so that every process on one home sees changes at once.

    Every method but `lookup` blocks.
    """

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._lock = threading.Lock()
        self._generation: int | None = None
        self._callers: list[tuple[str, Caller]] = []  # (hash of the token, caller)
        records.create(_SCHEMA)

    def add(self, caller: Caller) -> str:
        """Create a token for a caller and return it. It cannot be retrieved later.

        Raises:
            ConfigError: The name is taken or invalid, or the user or agent is invalid.
        """
        if not _NAME.match(caller.name):
            raise ConfigError(
                f"{caller.name!r} is not a valid token name. Use up to 64 letters, digits, dots, hyphens and "
                "underscores, beginning with a letter or digit."
            )
        for what, text in (("user", caller.user), ("agent", caller.agent)):
            if not text or len(text) > _MAX_LENGTH or not text.isprintable():
                raise ConfigError(f"The {what} of a token must have 1 to {_MAX_LENGTH} printable characters.")
        token = PREFIX + secrets.token_urlsafe(_BYTES)
        try:
            with self._records.begin() as connection:
                connection.execute(
                    _TOKENS.insert().values(_row_of(caller, _hash(token), self._clock.now().isoformat()))
                )
                self._records.bump(GENERATION, connection)
        except IntegrityError:
            raise ConfigError(
                f"There is already a token called {caller.name}. Choose another name, or remove that token first."
            ) from None
        return token

    def remove(self, name: str) -> bool:
        """Remove a token. Running servers refuse it immediately. Return False if there is no token with this name."""
        with self._records.begin() as connection:
            found = connection.execute(delete(_TOKENS).where(_TOKENS.c.name == name)).rowcount
            self._records.bump(GENERATION, connection)
        return bool(found)

    def all(self) -> list[Caller]:
        """Return the callers of all tokens, sorted by name."""
        return [caller for _, caller in self._current()]

    def find(self, token: str) -> Caller | None:
        """Return the caller of a token, or None if the token is invalid."""
        return _matching(self._current(), token)

    async def lookup(self, token: str) -> Caller | None:
        """Do the same as `find` without blocking the event loop.

        A thread is used only if the tokens must be read again. With SQLite, that is known after microseconds.
        """
        local = self._records.dialect == "sqlite" and self._generation is not None
        if local and self._records.generation(GENERATION) == self._generation:
            return _matching(self._callers, token)  # these are set before `_generation`, so they are not older
        return await asyncio.to_thread(self.find, token)

    def still_valid(self, caller: Caller) -> bool:
        """Return whether the token by which this caller was found still exists, unchanged.

        A new token with the same name is a different token.
        """
        return any(stored == caller.sha256 and known == caller for stored, known in self._current())

    def _current(self) -> list[tuple[str, Caller]]:
        with self._lock:
            generation = self._records.generation(GENERATION)  # read before the tokens, so no change is missed
            if generation != self._generation:
                with self._records.read() as connection:
                    rows = connection.execute(select(_TOKENS).order_by(_TOKENS.c.name)).mappings().all()
                self._callers = [(row["sha256"], _caller_of(dict(row))) for row in rows]
                self._generation = generation
            return self._callers


def _matching(callers: Sequence[tuple[str, Caller]], token: str) -> Caller | None:
    given = _hash(token)
    found = None
    for stored, caller in callers:  # always compare all tokens, so that the duration reveals nothing
        if hmac.compare_digest(given, stored):
            found = caller
    return found


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

"""`KeyLedger`: records calls with an idempotency key before they run, and their results afterwards (CALL-9)."""

import json
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from sqlalchemy import Column, MetaData, String, Table, Text, delete, insert, select, update

from engine.contract.context import Clock
from engine.contract.failure import Failure, FailureClass
from engine.contract.result import ToolResult
from engine.stores.engine_lock import EngineLock
from engine.stores.records import Records

KEPT_H = 24
_RUNNING, _DONE, _LOST = "running", "done", "lost"

_SCHEMA = MetaData()
_KEYS = Table(
    "keyed_calls",
    _SCHEMA,
    Column("user", String(200), primary_key=True),
    Column("tool", String(200), primary_key=True),
    Column("version", String(50), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("since", String(40), nullable=False, index=True),
    Column("engine", String(32), nullable=False),
    Column("state", String(10), nullable=False),
    Column("result", Text, nullable=True),
)


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key. Calls with the same key are the same call.

    Attributes:
        digest: The digest of the values of the key fields.
    """

    user: str
    tool: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class Claim:
    """The state of a key when a call claims it.

    If no attribute is set, the first call was cancelled or its engine died, so it is unknown whether it took effect.

    Attributes:
        mine: The key was free and now belongs to the claiming call, which may run.
        running: Another call holds the key, and its engine is running.
        result: The result of the first call.
    """

    mine: bool = False
    running: bool = False
    result: ToolResult | None = None


class KeyLedger:
    """Idempotency keys, stored in the records and shared by all processes on one home. Every method blocks."""

    def __init__(self, records: Records, lock: EngineLock, clock: Clock) -> None:
        """Create the table if it is missing."""
        self._records = records
        self._lock = lock
        self._clock = clock
        records.create(_SCHEMA)

    def claim(self, key: Key) -> Claim:
        """Claim the key, or return the state of the call that holds it. Of concurrent claims, only one succeeds."""
        now = self._clock.now().astimezone(UTC)
        with self._records.begin() as connection:
            old = (now - timedelta(hours=KEPT_H)).isoformat()
            connection.execute(delete(_KEYS).where((_KEYS.c.since < old) & (_KEYS.c.state != _RUNNING)))
            found = connection.execute(select(_KEYS).where(_is(key))).mappings().one_or_none()
            if found is None:
                row = {"since": now.isoformat(), "engine": self._lock.id, "state": _RUNNING, "result": None}
                connection.execute(insert(_KEYS).values(_columns(key) | row))
                return Claim(mine=True)
            if found["state"] == _RUNNING and not self._lock.is_running(found["engine"]):
                connection.execute(update(_KEYS).where(_is(key)).values(state=_LOST))
                return Claim()
        if found["state"] == _DONE:
            return Claim(result=_result(found["result"]))
        return Claim(running=found["state"] == _RUNNING)

    def done(self, key: Key, result: ToolResult) -> None:
        """Store the result of the call that holds the key. Later calls with the same key receive this result."""
        self._update(key, state=_DONE, result=_text(result))

    def lost(self, key: Key) -> None:
        """Record that the result of the call that holds the key is unknown."""
        self._update(key, state=_LOST)

    def free(self, key: Key) -> None:
        """Release the key, because the call did not run."""
        with self._records.begin() as connection:
            connection.execute(delete(_KEYS).where(_is(key) & (_KEYS.c.engine == self._lock.id)))

    def _update(self, key: Key, **values: Any) -> None:
        with self._records.begin() as connection:
            connection.execute(update(_KEYS).where(_is(key) & (_KEYS.c.engine == self._lock.id)).values(values))


def _columns(key: Key) -> dict[str, str]:
    return {"user": key.user, "tool": key.tool, "version": key.version, "key": key.digest}


def _is(key: Key) -> Any:
    named = (_KEYS.c.user == key.user) & (_KEYS.c.tool == key.tool)
    return named & (_KEYS.c.version == key.version) & (_KEYS.c.key == key.digest)


def _text(result: ToolResult) -> str:
    """Encode a result as JSON without the audit, because each call has its own."""
    failure = result.failure
    return json.dumps(
        {
            "success": result.success,
            "output": result.output,
            "message": result.message,
            "error": result.error,
            "side_effects": result.side_effects,
            "failure": failure and [failure.failure_class, failure.reason, failure.may_have_started],
        },
        default=str,
    )


def _result(text: str) -> ToolResult:
    kept = json.loads(text)
    failure = None
    if kept["failure"]:
        name, reason, started = kept["failure"]
        failure = Failure(FailureClass(name), reason, may_have_started=started, replay_safe=True)
    return ToolResult(
        kept["success"], kept["output"], kept["message"], kept["error"], failure, tuple(kept["side_effects"])
    )

"""`AuditTrail`: records every call in the call log and, as `ACTION_EXECUTED`, in the event log (CALL-10, CALL-13).

Rows are written in batches, 50 ms after the first, so the last batch may be lost if the engine is killed. A destructive
or keyed call is recorded before it runs.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Any

from sqlalchemy.exc import OperationalError

from engine.contract.failure import ConfigError
from engine.contract.guard import Guard, GuardRequest
from engine.contract.result import ToolCall, ToolResult
from engine.contract.turn import Turn
from engine.policy.risk import risk_of
from engine.stores.call_log import CallLog, row_of, row_of_start
from engine.stores.event_log import EventLog
from engine.stores.locks import StoreBusy

_log = logging.getLogger("knackbox.dispatch")

ACTION_EXECUTED = "ACTION_EXECUTED"
FLUSH_S = 0.05
_AFTER_FAILURE_S = 1.0
_MOST_WAITING = 10_000  # rows in the queue, about 10 MB

# Transient errors: a busy or unreachable database, a full disk.
_PASSING = (StoreBusy, ConfigError, OSError, OperationalError)
_Entry = tuple[ToolCall, ToolResult, Turn]


class AuditTrail(Guard):
    """A guard, for calls recorded before they run, and an observer, for the others.

    Writes in its own thread: calls that never yield would keep a timer of the event loop from firing.
    """

    def __init__(self, calls: CallLog, events: EventLog) -> None:
        self._calls = calls
        self._events = events
        self._waiting: deque[_Entry] = deque()
        self._writing = threading.Lock()
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._failing = False
        self._lost = 0
        self._thread: threading.Thread | None = None

    def admit(self, request: GuardRequest) -> Awaitable[None] | None:
        """Record a destructive or keyed call. If awaiting this fails, the call does not run."""
        spec = request.spec
        if not spec.annotations.destructive and not spec.idempotency_key_fields:
            return None
        risk = risk_of(spec, request.call.arguments)
        return asyncio.to_thread(self._calls.write, [row_of_start(request, risk)])

    def observe(self, call: ToolCall, result: ToolResult, turn: Turn) -> None:
        """Queue a result for writing. Blocks only when calls are made faster than they can be written."""
        self._waiting.append((call, result, turn))
        if len(self._waiting) == 1:
            self._wake()
        elif len(self._waiting) > _MOST_WAITING:
            self._make_room()

    async def flush(self) -> None:
        """Write what is waiting, now."""
        await asyncio.to_thread(self._drain)

    async def aclose(self) -> None:
        """Write what is waiting, and let the thread go."""
        self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        await self.flush()
        if self._waiting or self._lost:
            _log.error("%d rows of the call log are lost: they could not be written.", len(self._waiting) + self._lost)

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_on, name="knackbox-audit", daemon=True)
            self._thread.start()
        self._wanted.set()

    def _write_on(self) -> None:
        while not self._closed.is_set():
            self._wanted.wait()
            self._wanted.clear()
            self._closed.wait(_AFTER_FAILURE_S if self._failing else FLUSH_S)
            self._drain()
            if self._waiting:
                self._wanted.set()

    def _drain(self) -> None:
        """Write all that waits. What cannot be written stays, in its place."""
        with self._writing:
            entries = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not entries:
                return
            try:
                self._write(entries)
            except _PASSING as error:
                self._waiting.extendleft(reversed(entries))
                if not self._failing:
                    cause = " ".join(str(error).split())[:300]
                    _log.warning("The call log cannot be written; its rows are kept and tried again: %s", cause)
                self._failing = True
            except Exception:  # noqa: BLE001 - something in these rows; it must not stand in the way of the others
                self._one_by_one(entries)
            else:
                self._failing = False

    def _write(self, entries: Sequence[_Entry]) -> None:
        self._calls.write([row_of(*entry) for entry in entries])
        executed = [(ACTION_EXECUTED, _payload(*entry)) for entry in entries if entry[1].audit.attempts]
        self._events.append_all(executed)

    def _one_by_one(self, entries: Sequence[_Entry]) -> None:
        for entry in entries:
            try:
                self._write([entry])
            except _PASSING:
                self._waiting.append(entry)
            except Exception:  # noqa: BLE001 - it would fail the same way for ever
                self._lost += 1
                _log.exception("A row of the call log cannot be written and is left out: %a", entry[0].name[:100])

    def _make_room(self) -> None:
        if not self._failing:
            self._drain()
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft()
            self._lost += 1


def _payload(call: ToolCall, result: ToolResult, turn: Turn) -> dict[str, Any]:  # noqa: ARG001 -- an entry's parts
    audit = result.audit
    added = {"data": dict(audit.data)} if audit.data else {}
    return {
        **added,
        "tool": audit.tool,
        "call_id": audit.call_id,
        "user": turn.user,
        "agent": turn.agent,
        "ts": audit.ts,
        "duration_ms": round(audit.duration_ms, 3),
        "success": result.success,
        "end": audit.end,
        "risk": audit.risk,
        "side_effects": list(result.side_effects),
    }

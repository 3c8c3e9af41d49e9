"""`AuditTrail`: every call on record (CALL-10, CALL-13): a row in the call log and `ACTION_EXECUTED` in the event log.

Rows are written together, 50 ms after the first: the last of them may be lost when the engine is killed. A call that
changes something for good, or carries a key, is on record before it runs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any

from engine.contract.context import Clock
from engine.contract.failure import Failure
from engine.contract.guard import Request
from engine.contract.result import ToolCall, ToolResult
from engine.contract.turn import Turn
from engine.policy.risk import risk_of
from engine.stores.call_log import CallLog, row_of, row_of_start
from engine.stores.event_log import EventLog

_log = logging.getLogger("knackbox.dispatch")

ACTION_EXECUTED = "ACTION_EXECUTED"
FLUSH_S = 0.05
_MOST_WAITING = 10_000  # rows kept while they cannot be written

_Entry = tuple[ToolCall, ToolResult, Turn]


class AuditTrail:
    """A guard, for what is on record before it runs, and an observer, for the rest. Belongs to one event loop."""

    def __init__(self, calls: CallLog, events: EventLog, clock: Clock) -> None:
        self._calls = calls
        self._events = events
        self._clock = clock
        self._waiting: list[_Entry] = []
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def admit(self, request: Request) -> Awaitable[None] | None:
        """Put a destructive or keyed call on record. Awaiting it raises what the records raise: then nothing runs."""
        spec = request.spec
        if not spec.annotations.destructive and not spec.idempotency_key_fields:
            return None
        ts, risk = self._clock.now().isoformat(), risk_of(spec, request.call.arguments)
        return asyncio.to_thread(self._calls.write, [row_of_start(request, ts, risk)])

    def ended(self, request: Request, failure: Failure | None, *, ran: bool) -> None:
        """The result comes to `observe`."""

    def observe(self, call: ToolCall, result: ToolResult, turn: Turn) -> None:
        """Note a result; it is written soon."""
        self._waiting.append((call, result, turn))
        if len(self._waiting) > _MOST_WAITING:
            lost = self._waiting.pop(0)
            _log.error("The call log cannot be written; the row of call %s is lost.", lost[1].audit.call_id)
        if self._timer is None and self._writing is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._begin)

    async def flush(self) -> None:
        """Write what is waiting, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        if self._waiting:
            await asyncio.wait((self._begin(),))

    def _begin(self) -> "asyncio.Task[None]":
        self._timer = None
        entries, self._waiting = self._waiting, []
        self._writing = asyncio.ensure_future(self._write(entries))
        return self._writing

    async def _write(self, entries: list[_Entry]) -> None:
        try:
            await asyncio.to_thread(self._put, entries)
        except Exception:  # noqa: BLE001 - whatever the stores raise; the calls themselves went well
            _log.exception(
                "%d rows of the call log could not be written; they are tried again with the next.", len(entries)
            )
            self._waiting = [*entries, *self._waiting]
        finally:
            self._writing = None
            if self._waiting and self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._begin)

    def _put(self, entries: Sequence[_Entry]) -> None:
        self._calls.write([row_of(*entry) for entry in entries])
        executed = [(ACTION_EXECUTED, _payload(*entry)) for entry in entries if entry[1].audit.attempts]
        if executed:
            self._events.append_all(executed)


def _payload(call: ToolCall, result: ToolResult, turn: Turn) -> dict[str, Any]:  # noqa: ARG001 -- an entry's parts
    audit = result.audit
    return {
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

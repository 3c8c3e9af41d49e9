"""`AuditTrail`: records every call in the call journal and, as `ACTION_EXECUTED`, in the event log (CALL-10, CALL-13).

Rows are written in batches, 50 ms after the first row of a batch is queued, so the last batch may be lost if the engine
is killed. A call that is destructive or has an idempotency key is recorded before it runs, and a failed call before its
caller gets the result.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any

from engine.contract.guard import Guard, GuardRequest
from engine.contract.result import ToolCall, ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.private_arguments import without_private
from engine.dispatch.write_queue import WriteQueue
from engine.policy.risk import risk_of
from engine.stores.call_journal import CallJournal
from engine.stores.call_rows import row_of, row_of_start
from engine.stores.event_log import EventLog

_log = logging.getLogger("knackbox.dispatch")

ACTION_EXECUTED = "ACTION_EXECUTED"
FLUSH_S = 0.05
_AFTER_FAILURE_S = 1.0

_Entry = tuple[ToolCall, ToolResult, Turn]


class AuditTrail(Guard):
    """Records every call after it has ended (as a `CallRecorder`), and certain calls before they run (as a guard).

    A thread of its own does the writing, because a timer in the event loop would not fire while calls run without
    yielding.
    """

    def __init__(self, journal: CallJournal, events: EventLog) -> None:
        self._journal = journal
        self._events = events
        self._rows: WriteQueue[_Entry] = WriteQueue("call log", self._write_rows, _tool)
        self._unpublished: WriteQueue[_Entry] = WriteQueue("event log", self._append_events, _tool)
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def concerns(self, spec: ToolSpec) -> bool:
        """Return whether calls of the tool are recorded before they run."""
        return spec.annotations.destructive or bool(spec.idempotency_key_fields)

    def admit(self, request: GuardRequest) -> Awaitable[None]:
        """Record the call. If the returned awaitable fails, the call does not run."""
        risk = risk_of(request.spec, request.call.arguments)
        recorded = replace(request, call=without_private(request.call, request.spec))
        return asyncio.to_thread(self._journal.write, [row_of_start(recorded, risk)])

    def observe(self, call: ToolCall, result: ToolResult, turn: Turn) -> None:
        """Queue a result for writing. This blocks only if calls are made faster than they can be written."""
        if self._rows.add((call, result, turn)) == 1:
            self._wake()

    async def record_now(self) -> None:
        """Write the rows of all observed calls, but not their events. Rows that cannot be written are kept."""
        await asyncio.to_thread(self._rows.write)

    async def flush(self) -> None:
        """Write all waiting rows and events now."""
        await asyncio.to_thread(self._write_all)

    async def aclose(self) -> None:
        """Write all waiting rows and events, and stop the thread."""
        self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        await self.flush()
        for store, queue in (("call log", self._rows), ("event log", self._unpublished)):
            if queue or queue.lost:
                _log.error("%d rows of the %s could not be written and are lost.", len(queue) + queue.lost, store)

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_on, name="knackbox-audit", daemon=True)
            self._thread.start()
        self._wanted.set()

    def _write_on(self) -> None:
        while not self._closed.is_set():
            self._wanted.wait()
            self._wanted.clear()
            failing = self._rows.failing or self._unpublished.failing
            self._closed.wait(_AFTER_FAILURE_S if failing else FLUSH_S)
            self._write_all()
            if self._rows or self._unpublished:
                self._wanted.set()

    def _write_all(self) -> None:
        self._rows.write()
        self._unpublished.write()

    def _write_rows(self, entries: Sequence[_Entry]) -> None:
        self._journal.write([row_of(*entry) for entry in entries])
        for entry in entries:
            if entry[1].audit.attempts:
                self._unpublished.add(entry)

    def _append_events(self, entries: Sequence[_Entry]) -> None:
        self._events.append_all([(ACTION_EXECUTED, _payload(*entry)) for entry in entries])


def _tool(entry: _Entry) -> str:
    return entry[0].name


def _payload(call: ToolCall, result: ToolResult, turn: Turn) -> dict[str, Any]:  # noqa: ARG001 -- called with all parts of an entry
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

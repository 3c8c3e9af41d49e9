"""`RunningCalls`: the calls that run for HTTP clients, their callers and their events."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

from starlette.requests import Request

from engine.app.engine import Engine
from engine.contract.context import Clock, no_progress
from engine.contract.events import StreamEvent
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from engine.dispatch.stream import EventBuffer
from engine.interfaces.http.pace import Pace, whole_seconds
from engine.interfaces.http.responses import HttpProblem
from engine.interfaces.http.tokens import Caller

RESTART_S = 15  # a server takes at most this long to stop; then a new server can listen
CLOSE_TIMEOUT_S = 15.0  # time that the tools of abandoned calls have to stop
TOKEN_CHECK_S = 1.0  # interval between checks that the tokens of running calls still exist

_MAX_IDLE_PACES = 1_024  # tokens without running calls, for which the usual call duration is remembered

_log = logging.getLogger(__name__)

_CURRENT_CALL: ContextVar["RunningCall | None"] = ContextVar("knackbox_http_call", default=None)


def current_call() -> "RunningCall | None":
    """Return the HTTP call that this code runs for, or None if there is none."""
    return _CURRENT_CALL.get()


class RunningCall:
    """A running call of an HTTP client.

    Attributes:
        call_id: The client's id for the call.
        engine_id: The engine's id for the call. Clients cannot choose it, because a chosen id could replace the record
            of another call.
    """

    def __init__(
        self,
        caller: Caller,
        call_id: str,
        engine_id: str,
        *,
        still_valid: Callable[[Caller], bool],
        clock: Clock,
        events: EventBuffer | None = None,
    ) -> None:
        self.caller = caller
        self._still_valid = still_valid
        self.call_id = call_id
        self.engine_id = engine_id
        self.clock = clock
        self.events = events or EventBuffer()
        self._task: asyncio.Task[ToolResult] | None = None

    def begin(self, task: "asyncio.Task[ToolResult]") -> None:
        """Attach the task that runs the call."""
        self._task = task
        task.add_done_callback(lambda _: self.events.stir())

    def token_is_valid(self) -> bool:
        """Return whether the token with which the call was made still exists, unchanged. This method may block."""
        return self._still_valid(self.caller)

    async def event_batches(self, quiet_s: float) -> AsyncIterator[list[StreamEvent]]:
        """Yield events in batches until the call is done, and an empty list after `quiet_s` seconds without events."""
        assert self._task is not None  # noqa: S101 -- for the type checker: it has begun
        while not self._task.done():
            quiet = not await self.events.wait(quiet_s)
            batch = self.events.take_all()
            if batch or quiet:
                yield batch
        if batch := self.events.take_all():
            yield batch

    async def result(self, request: Request) -> ToolResult | None:
        """Wait for the result. Return None and cancel the call if the client disconnects first."""
        assert self._task is not None  # noqa: S101
        disconnect = asyncio.ensure_future(_until_disconnected(request))
        try:
            await asyncio.wait((self._task, disconnect), return_when=asyncio.FIRST_COMPLETED)
            return self.finished_result() if self._task.done() else None
        finally:
            disconnect.cancel()
            self.abandon()

    async def wait(self) -> ToolResult:
        """Wait for the result. If the waiting task is cancelled, cancel the call and wait until it has ended.

        Raises:
            HttpProblem: The call was cancelled and has no result.
        """
        assert self._task is not None  # noqa: S101
        try:
            await asyncio.wait((self._task,))
        except asyncio.CancelledError:
            self.abandon()
            await asyncio.wait((self._task,))
            raise
        return self.finished_result()

    def finished_result(self) -> ToolResult:
        """Return the result of a call that is done.

        Raises:
            HttpProblem: The call was cancelled and has no result.
        """
        assert self._task is not None  # noqa: S101
        if self._task.cancelled():
            raise unavailable("The call was cancelled. The audit shows whether it ran.")
        return self._task.result()

    def abandon(self) -> None:
        """Cancel the call and kill its boxes, because nobody waits for it any longer."""
        if self._task is not None and not self._task.done():
            self._task.cancel()


class RunningCalls:
    """Starts, tracks and cancels the calls of one server's clients. Use it in one event loop."""

    def __init__(self, engine: Engine, max_per_token: int, still_valid: Callable[[Caller], bool]) -> None:
        """Create the object without any calls.

        Args:
            engine: The engine that runs the calls.
            max_per_token: The maximum number of running calls of one token.
            still_valid: Function that returns whether a caller's token still exists. It may block.
        """
        self._engine = engine
        self._max_per_token = max_per_token
        self._still_valid = still_valid
        self._revocation_task: asyncio.Task[None] | None = None
        self._running: dict[RunningCall, asyncio.Task[ToolResult]] = {}
        self._by_id: dict[tuple[str, str], RunningCall] = {}
        self._paces: dict[str, Pace] = {}  # by token
        self._stopping = False

    def start(
        self,
        caller: Caller,
        name: str,
        arguments: Mapping[str, Any],
        turn: Turn,
        call_id: str | None = None,
        *,
        followed: bool = False,
        client: Hashable = None,
        events: EventBuffer | None = None,
    ) -> RunningCall:
        """Start a call.

        Args:
            caller: The caller, identified by the token.
            name: The name of the tool.
            arguments: The arguments of the tool.
            turn: The turn that the call belongs to.
            call_id: The client's id for the call; by default the engine's id.
            followed: Whether events are collected for a reader.
            client: Identifies one of several clients that use the same token, if known.
            events: The buffer for collected events; by default a new one.

        Raises:
            HttpProblem: 503 while the server stops, 429 when the token has too many calls, 409 when the caller's user
                already has a running call with this id.
        """
        if self._stopping:
            raise unavailable("The server is stopping. Nothing was run.")
        now = _loop_time_s()
        pace = self._paces.setdefault(caller.name, Pace(self._max_per_token))
        if not pace.admits(client, now):
            text = f"This token already has {self._max_per_token} running calls (`calls_per_token` of [http])."
            wait = whole_seconds(pace.retry_after_s(client, now))
            raise HttpProblem(
                HTTPStatus.TOO_MANY_REQUESTS, f"{text} Wait until one of the token's calls ends.", {"Retry-After": wait}
            )
        engine_id = secrets.token_hex(16)
        clock = self._engine.services.clock
        running = RunningCall(
            caller, call_id or engine_id, engine_id, still_valid=self._still_valid, clock=clock, events=events
        )
        if (caller.user, running.call_id) in self._by_id:
            raise HttpProblem(
                HTTPStatus.CONFLICT,
                f"This user already has a running call with the id {running.call_id}. Choose another id.",
            )
        token = _CURRENT_CALL.set(running)
        try:
            listener = running.events if followed else no_progress
            called = self._engine.call(name, arguments, turn, call_id=engine_id, progress=listener, patient=False)
            task = asyncio.ensure_future(called)
        finally:
            _CURRENT_CALL.reset(token)
        self._running[running] = task
        self._by_id[caller.user, running.call_id] = running
        pace.take(now)
        task.add_done_callback(lambda _: self._on_end(running, pace, now))
        running.begin(task)
        if self._revocation_task is None or self._revocation_task.done():
            self._revocation_task = asyncio.ensure_future(self._cancel_revoked())
        return running

    def cancel(self, caller: Caller, call_id: str) -> bool:
        """Cancel a call of the caller's user, and return whether there was one. Its client receives a result."""
        running = self._by_id.get((caller.user, call_id))
        return running is not None and self._engine.cancel(running.engine_id)

    def stop(self) -> None:
        """Refuse new calls and cancel the running ones. Each client gets the result of its call."""
        self._stopping = True
        for running in list(self._running):
            self._engine.cancel(running.engine_id)

    async def aclose(self) -> None:
        """Do what `stop` does, and wait a bounded time for the running calls to finish."""
        self.stop()
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=CLOSE_TIMEOUT_S)
        if self._revocation_task is not None:
            self._revocation_task.cancel()
            await asyncio.wait([self._revocation_task])

    async def _cancel_revoked(self) -> None:
        """While any call runs, cancel the calls whose token was removed or changed."""
        while self._running:
            await asyncio.sleep(TOKEN_CHECK_S)
            try:
                revoked = await asyncio.to_thread(_revoked, list(self._running))
            except Exception:  # noqa: BLE001 -- any error of the records; the next check may succeed
                _log.exception("The tokens of running calls could not be checked.")
                continue
            for running in revoked:
                self._engine.cancel(running.engine_id)

    def _on_end(self, running: RunningCall, pace: Pace, since: float) -> None:
        del self._running[running]
        del self._by_id[running.caller.user, running.call_id]
        pace.free(since, _loop_time_s())
        if pace.unused and len(self._paces) > _MAX_IDLE_PACES:
            del self._paces[running.caller.name]


def unavailable(detail: str) -> HttpProblem:
    """Return the error of a server that is stopping."""
    return HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, detail, {"Retry-After": str(RESTART_S)})


def refuse_if_busy(result: ToolResult) -> None:
    """Check that a call was not refused because all boxes are in use.

    Raises:
        HttpProblem: 503 with ``Retry-After``, if the call was refused for this reason.
    """
    failure = result.failure
    if failure is None or failure.reason != "busy" or failure.may_have_started or failure.retry_after is None:
        return
    headers = {"Retry-After": whole_seconds(failure.retry_after)}
    raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, f"Nothing was run. {result.error}", headers)


def _loop_time_s() -> float:
    return asyncio.get_running_loop().time()


def _revoked(calls: Iterable[RunningCall]) -> list[RunningCall]:
    return [each for each in calls if not each.token_is_valid()]


async def _until_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

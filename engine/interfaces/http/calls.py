"""`Calls`: the calls that run for HTTP clients, by whom, and what each has to tell before its result."""

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
from engine.interfaces.http.answers import HttpProblem
from engine.interfaces.http.pace import Pace, whole_seconds
from engine.interfaces.http.tokens import Caller

STOPPED_S = 15  # until another server may listen here: what a stop takes at the most
CLOSE_S = 15.0  # for the tools of abandoned calls to stop
LOOK_S = 1.0  # between looks whether the tokens of running calls are still there

_MOST_PACES = 1_024  # tokens whose usual call times are remembered while they do nothing

_log = logging.getLogger(__name__)

_PRESENT: ContextVar["Running | None"] = ContextVar("knackbox_http_call", default=None)


def present() -> "Running | None":
    """The call this code runs for; None for one that did not come over HTTP."""
    return _PRESENT.get()


class Running:
    """One call. call_id: as its client knows it. engine_id: as the engine does; never chosen by a client, since a
    chosen one could take the place of another call's record."""

    def __init__(
        self, caller: Caller, call_id: str, engine_id: str, *, holds: Callable[[Caller], bool], clock: Clock
    ) -> None:
        self.caller = caller
        self._holds = holds
        self.call_id = call_id
        self.engine_id = engine_id
        self.clock = clock
        self.events = EventBuffer()
        self._task: asyncio.Task[ToolResult] | None = None

    def begin(self, task: "asyncio.Task[ToolResult]") -> None:
        self._task = task
        task.add_done_callback(lambda _: self.events.stir())

    def stands(self) -> bool:
        """Whether the token that asked for it is still there, and is the same caller's. It may block."""
        return self._holds(self.caller)

    async def event_batches(self, quiet_s: float) -> AsyncIterator[list[StreamEvent]]:
        """What there is to tell, as it comes, until the call is done; an empty list when it was quiet for so long."""
        assert self._task is not None  # noqa: S101 -- for the type checker: it has begun
        while not self._task.done():
            quiet = not await self.events.wait(quiet_s)
            told = self.events.take_all()
            if told or quiet:
                yield told
        if told := self.events.take_all():
            yield told

    async def result(self, request: Request) -> ToolResult | None:
        """What came of it; None when the client went away first, which cancels the call."""
        assert self._task is not None  # noqa: S101
        gone = asyncio.ensure_future(_until_gone(request))
        try:
            await asyncio.wait((self._task, gone), return_when=asyncio.FIRST_COMPLETED)
            return self.taken() if self._task.done() else None
        finally:
            gone.cancel()
            self.abandon()

    def taken(self) -> ToolResult:
        """The result of a call that is done. Raises Problem when it was abandoned, and has none."""
        assert self._task is not None  # noqa: S101
        if self._task.cancelled():
            raise stopping("The call was cancelled. Whether it ran is in the audit.")
        return self._task.result()

    def abandon(self) -> None:
        """Nobody waits for it any more: it is cancelled, and its boxes are killed."""
        if self._task is not None and not self._task.done():
            self._task.cancel()


class RunningCalls:
    """All that run, for one event loop."""

    def __init__(self, engine: Engine, most: int, holds: Callable[[Caller], bool]) -> None:
        """most: at once, for each token. holds: whether a caller's token is still there; it may block."""
        self._engine = engine
        self._most = most
        self._holds = holds
        self._watching: asyncio.Task[None] | None = None
        self._running: dict[Running, asyncio.Task[ToolResult]] = {}
        self._by_id: dict[tuple[str, str], Running] = {}
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
    ) -> Running:
        """Begin a call. followed: somebody reads its events. client: which of a token's clients asks, as far as one can
        tell. Raises Problem when the token has too many calls, or its user has one of this id."""
        if self._stopping:
            raise stopping("The server is stopping; nothing was run.")
        now = clock_s()
        pace = self._paces.setdefault(caller.name, Pace(self._most))
        if not pace.admits(client, now):
            text = f"{self._most} calls of this token run already (`calls_per_token` of [http]). Wait for one to end."
            wait = whole_seconds(pace.retry_after_s(client, now))
            raise HttpProblem(HTTPStatus.TOO_MANY_REQUESTS, text, {"Retry-After": wait})
        engine_id = secrets.token_hex(16)
        clock = self._engine.services.clock
        running = Running(caller, call_id or engine_id, engine_id, holds=self._holds, clock=clock)
        if self._find(caller.user, running.call_id) is not None:
            raise HttpProblem(
                HTTPStatus.CONFLICT, f"A call {running.call_id} of this user runs already. Take another id."
            )
        token = _PRESENT.set(running)
        try:
            listener = running.events if followed else no_progress
            called = self._engine.call(name, arguments, turn, call_id=engine_id, progress=listener, patient=False)
            task = asyncio.ensure_future(called)
        finally:
            _PRESENT.reset(token)
        self._running[running] = task
        self._by_id[caller.user, running.call_id] = running
        pace.take(now)
        task.add_done_callback(lambda _: self._ended(running, pace, now))
        running.begin(task)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch())
        return running

    def cancel(self, caller: Caller, call_id: str) -> bool:
        """Cancel a call of this user; whoever waits for it gets a result. False when none of theirs runs."""
        running = self._find(caller.user, call_id)
        return running is not None and self._engine.cancel(running.engine_id)

    def stop(self) -> None:
        """Begin no more; end those that run, each with a result for its client. One that has just ended keeps its."""
        self._stopping = True
        for running in list(self._running):
            self._engine.cancel(running.engine_id)

    async def aclose(self) -> None:
        """Wait until nothing runs any more."""
        self.stop()
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=CLOSE_S)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def _watch(self) -> None:
        """While calls run: cancel those whose token was removed or changed."""
        while self._running:
            await asyncio.sleep(LOOK_S)
            try:
                revoked = await asyncio.to_thread(_revoked, list(self._running))
            except Exception:  # noqa: BLE001 -- whatever the records raise; they may be back at the next look
                _log.exception("Whether the tokens of running calls are still there could not be looked up.")
                continue
            for running in revoked:
                self._engine.cancel(running.engine_id)

    def _ended(self, running: Running, pace: Pace, since: float) -> None:
        del self._running[running]
        del self._by_id[running.caller.user, running.call_id]
        pace.free(since, clock_s())
        if pace.unused and len(self._paces) > _MOST_PACES:
            del self._paces[running.caller.name]

    def _find(self, user: str, call_id: str) -> Running | None:
        return self._by_id.get((user, call_id))


def stopping(detail: str) -> HttpProblem:
    """The answer of a server that stops."""
    return HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, detail, {"Retry-After": str(STOPPED_S)})


def refuse_if_busy(result: ToolResult) -> None:
    """Raises Problem for a call that did not run because every box is in use."""
    failure = result.failure
    if failure is None or failure.reason != "busy" or failure.may_have_started or failure.retry_after is None:
        return
    headers = {"Retry-After": whole_seconds(failure.retry_after)}
    raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, f"Nothing was run. {result.error}", headers)


def clock_s() -> float:
    return asyncio.get_running_loop().time()


def _revoked(calls: Iterable[Running]) -> list[Running]:
    return [each for each in calls if not each.stands()]


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

"""`Traffic`: counts the calls being answered, and refuses new calls that would wait too long (load shedding).

A refusal costs much less than a call, so an overloaded server can still refuse at once.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from starlette.types import Scope

from engine.interfaces.http.pace import whole_seconds
from engine.interfaces.http.responses import HttpProblem
from engine.interfaces.http.tokens import Caller
from sandbox.backlog import Backlog

_SMOOTHING = 0.05  # weight of the newest interval in the moving average
_FIRST_GUESS_S = 0.005
_NEVER_REFUSED = 16  # calls are only refused if more than this many are running; with fewer, the tools may just be slow


class Traffic:
    """Tracks all calls of one server, from their arrival to the end of their response. Use it in one event loop."""

    def __init__(self) -> None:
        self._backlog = Backlog()
        self._active: Counter[str] = Counter()  # calls by agent
        self._total = 0
        self._interval_s = _FIRST_GUESS_S
        self._last_end = 0.0

    @contextmanager
    def call(self, caller: Caller) -> Iterator[None]:
        """Count a call while the context is active.

        Raises:
            HttpProblem: 503 with an accurate ``Retry-After``, if the call would wait too long.
        """
        agent, now = f"{len(caller.user)}:{caller.user}:{caller.agent}", _now()
        promised = self._backlog.returns(agent, now)
        if self._total >= _NEVER_REFUSED:
            interval = max(self._interval_s, (now - self._last_end) / 2)
            if not self._backlog.admits(agent, self._active, self._total, interval, now, promised=promised):
                wait, retry_after = self._backlog.refuse(agent, self._active, interval, now)
                raise HttpProblem(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"The server is busy with {self._total} calls; this one would wait about {wait:.0f} s. "
                    "Nothing was run.",
                    {"Retry-After": whole_seconds(retry_after)},
                )
        if not self._total:
            self._last_end = now
        self._total += 1
        self._active[agent] += 1
        try:
            yield
        finally:
            now = _now()
            if self._total >= _NEVER_REFUSED:  # with fewer calls, the interval would depend on how often calls arrive
                self._interval_s += _SMOOTHING * (now - self._last_end - self._interval_s)
            self._last_end = now
            self._total -= 1
            self._active[agent] -= 1
            if not self._active[agent]:
                del self._active[agent]


def is_call(scope: Scope) -> bool:
    """Return whether a request calls a tool."""
    path: str = scope["path"]
    return scope["method"] == "POST" and (path.startswith("/api/call") or path.endswith("/execute"))


def _now() -> float:
    return asyncio.get_running_loop().time()

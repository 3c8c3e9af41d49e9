"""`Traffic`: the calls a server answers, and which of them it refuses at its door because they would wait too long.

A refusal costs a small part of a call, so a server that cannot keep up can still say so at once.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from starlette.types import Scope

from engine.interfaces.http.answers import HttpProblem
from engine.interfaces.http.pace import whole_seconds
from engine.interfaces.http.tokens import Caller
from sandbox.backlog import Backlog

_SMOOTHING = 0.05  # weight of the newest interval in the moving average
_FIRST_GUESS_S = 0.005
_FEW = 16  # calls at once that are never refused: what they wait for may be slow by itself


class Traffic:
    """All calls of one server, from their door to the end of their answer. For one event loop."""

    def __init__(self) -> None:
        self._backlog = Backlog()
        self._inside: Counter[str] = Counter()  # by agent
        self._all = 0
        self._interval_s = _FIRST_GUESS_S
        self._last_end = 0.0

    @contextmanager
    def call(self, caller: Caller) -> Iterator[None]:
        """While a call is answered. Raises HttpProblem, with a true ``Retry-After``, when it would wait too long."""
        agent, now = f"{len(caller.user)}:{caller.user}:{caller.agent}", _now()
        promised = self._backlog.returns(agent, now)
        if self._all >= _FEW:
            interval = max(self._interval_s, (now - self._last_end) / 2)
            if not self._backlog.admits(agent, self._inside, self._all, interval, now, promised=promised):
                wait, retry_after = self._backlog.refuse(agent, self._inside, interval, now)
                raise HttpProblem(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"{self._all} calls are being answered; one more would wait about {wait:.0f} s. Nothing was run.",
                    {"Retry-After": whole_seconds(retry_after)},
                )
        if not self._all:
            self._last_end = now
        self._all += 1
        self._inside[agent] += 1
        try:
            yield
        finally:
            now = _now()
            if self._all >= _FEW:  # with fewer, the time between two ends is the time between two calls
                self._interval_s += _SMOOTHING * (now - self._last_end - self._interval_s)
            self._last_end = now
            self._all -= 1
            self._inside[agent] -= 1
            if not self._inside[agent]:
                del self._inside[agent]


def is_call(scope: Scope) -> bool:
    """Whether a request is a call of a tool."""
    path: str = scope["path"]
    return scope["method"] == "POST" and (path.startswith("/api/call") or path.endswith("/execute"))


def _now() -> float:
    return asyncio.get_running_loop().time()

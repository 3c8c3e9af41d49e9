"""A tool's progress, carried from whatever thread reports it to the client that asked for it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

KEPT = 64  # of unsent reports; older ones are dropped, since only the latest says how far it is
SMALLEST_STEP = 1e-6  # the protocol wants progress that grows with every notification

Send = Callable[[float, float | None, str | None], Awaitable[None]]


class ProgressRelay:
    """Called by a tool as ``progress(message, fraction)``; `forward` sends it on until `finish`."""

    def __init__(self, send: Send) -> None:
        """send: progress, total (1.0 when the fraction is known) and message of one notification."""
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[str, float | None]] = deque(maxlen=KEPT)
        self._news = asyncio.Event()
        self._finished = False
        self._reached = 0.0

    def __call__(self, message: str = "", fraction: float | None = None) -> None:
        """From any thread."""
        self._waiting.append((message, fraction))
        self._loop.call_soon_threadsafe(self._news.set)

    def finish(self) -> None:
        """No more reports will come; `forward` ends when what came is sent. On the event loop's thread."""
        self._finished = True
        self._news.set()

    async def forward(self) -> None:
        while True:
            while self._waiting:
                message, fraction = self._waiting.popleft()
                await self._send(self._next(fraction), None if fraction is None else 1.0, message or None)
            if self._finished:
                return
            await self._news.wait()
            self._news.clear()

    def _next(self, fraction: float | None) -> float:
        self._reached = max(self._reached + SMALLEST_STEP, fraction or 0.0)
        return self._reached

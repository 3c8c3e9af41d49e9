"""A tool's progress, carried from whatever thread reports it to the client that asked for it."""

from collections.abc import Awaitable, Callable

from engine.contract.events import Progress
from engine.dispatch.stream import EventBuffer

KEPT = 64  # of unsent reports; older ones are dropped, since only the latest says how far it is
SMALLEST_STEP = 1e-6  # the protocol wants progress that grows with every notification

Send = Callable[[float, float | None, str | None], Awaitable[None]]


class ProgressRelay:
    """Called by a tool as ``progress(message, fraction)``; `forward` sends it on until `finish`."""

    def __init__(self, send: Send) -> None:
        """send: progress, total (1.0 when the fraction is known) and message of one notification."""
        self._send = send
        self._events = EventBuffer(KEPT)
        self._finished = False
        self._reached = 0.0

    def __call__(self, message: str = "", fraction: float | None = None) -> None:
        """From any thread."""
        self._events(message, fraction)

    def finish(self) -> None:
        """No more reports will come; `forward` ends when what came is sent. On the event loop's thread."""
        self._finished = True
        self._events.stir()

    async def forward(self) -> None:
        while True:
            finished = self._finished
            for event in self._events.take_all():
                if isinstance(event, Progress):
                    total = None if event.fraction is None else 1.0
                    await self._send(self._next(event.fraction), total, event.message or None)
            if finished:
                return
            await self._events.wait()

    def _next(self, fraction: float | None) -> float:
        self._reached = max(self._reached + SMALLEST_STEP, fraction or 0.0)
        return self._reached

"""`ProgressRelay`: forwards to the client the progress that a tool reports from any thread."""

from collections.abc import Awaitable, Callable

from engine.contract.events import Awaiting, Progress
from engine.dispatch.stream import EventBuffer

MAX_UNSENT = 64  # unsent reports; the oldest ones are dropped, since only the latest ones matter
MIN_STEP = 1e-6  # the protocol requires that progress increases with every notification

Send = Callable[[float, float | None, str | None], Awaitable[None]]


class ProgressRelay:
    """Buffers the progress that a tool reports as ``progress(message, fraction)``. `forward` sends it to the client.

    Attributes:
        events: The buffer. A call that waits for approval by another token is reported too.
    """

    def __init__(self, send: Send) -> None:
        """Create a relay.

        Args:
            send: Function that sends a notification with progress, total (1.0 if the fraction is known, otherwise None)
                and message.
        """
        self._send = send
        self.events = EventBuffer(MAX_UNSENT)
        self._finished = False
        self._reached = 0.0

    def __call__(self, message: str = "", fraction: float | None = None) -> None:
        """Report progress. It may be called from any thread."""
        self.events(message, fraction)

    def finish(self) -> None:
        """End `forward` after it has sent all reports. Call this method in the thread of the event loop."""
        self._finished = True
        self.events.stir()

    async def forward(self) -> None:
        """Send reports to the client until `finish` is called and all are sent."""
        while True:
            finished = self._finished
            for event in self.events.take_all():
                if isinstance(event, Progress):
                    total = None if event.fraction is None else 1.0
                    await self._send(self._next(event.fraction), total, event.message or None)
                elif isinstance(event, Awaiting):
                    await self._send(self._next(None), None, f"waiting for approval {event.id}")
            if finished:
                return
            await self.events.wait()

    def _next(self, fraction: float | None) -> float:
        self._reached = max(self._reached + MIN_STEP, fraction or 0.0)
        return self._reached

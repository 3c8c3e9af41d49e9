"""`ModelPacing`: lets all runs of an engine share the limits of one model's server."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from engine.contract.failure import FailureClass, ToolFailure

SHORT_S = 5.0  # a request waits for the end of a shorter pause; a longer one is a failure that the run waits for
USUAL = 32


class ModelPaused(ToolFailure):
    """The model's server has asked this or another run for a pause. It is classified like the answer of the server.

    Attributes:
        headers: Contains the seconds until the end of the pause.
    """

    status_code = 429

    def __init__(self, left_s: float) -> None:
        text = f"its server asked for a pause, of which {left_s:.0f} s are left"
        super().__init__(
            text,
            failure_class=FailureClass.RETRYABLE,
            reason="rate_limited",
            retry_after=left_s,
            may_have_started=False,
        )
        self.headers = {"retry-after": str(left_s)}


class ModelPacing:
    """Limits the concurrent requests to one server, and keeps the pauses that it asks for. Use it in one event loop."""

    def __init__(self, most: int = USUAL, now: Callable[[], float] = time.monotonic) -> None:
        """Create the object for one server.

        Args:
            most: The maximum number of concurrent requests.
            now: Monotonic time in seconds.
        """
        self._slots = asyncio.Semaphore(most)
        self._now = now
        self._until = float("-inf")

    def pause(self, seconds: float) -> None:
        """Send no further request for so long. A pause is never shortened."""
        self._until = max(self._until, self._now() + seconds)

    @property
    def left_s(self) -> float:
        """The seconds until the end of the pause; 0 if there is none."""
        return max(self._until - self._now(), 0.0)

    @asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        """Wait until a request may be sent, and count it as long as the context is open.

        Raises:
            ModelPaused: The server has asked for a long pause.
        """
        async with self._slots:
            while (left := self.left_s) > 0:
                if left > SHORT_S:
                    raise ModelPaused(left)
                await asyncio.sleep(left)
            yield

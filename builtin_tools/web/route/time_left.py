"""`TimeLeft`: one time limit for several steps, without the pauses between them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from builtin_tools.http_hop import temporary
from engine.contract.context import Clock


class TimeLeft:
    """The rest of a time limit."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._limit_s = seconds
        self._left_s = seconds

    @asynccontextmanager
    async def spent_on(self, what: str) -> AsyncIterator[None]:
        """Limit the block to the time that is left.

        Args:
            what: What the block does, for the message: the URL that is requested.

        Raises:
            ToolFailure: The time is over (RETRYABLE).
        """
        start = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._left_s):
                yield
        except TimeoutError as error:
            raise temporary(f"{what}: not finished within {self._limit_s:g} s. Use another source.") from error
        finally:
            self._left_s = max(0.0, self._left_s - (self._clock.monotonic() - start))

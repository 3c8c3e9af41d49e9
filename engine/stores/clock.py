"""`SystemClock`: the system clock, for `engine.contract.context.Clock`."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Real time. Tests inject another clock."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return monotonic time in seconds."""
        return time.monotonic()

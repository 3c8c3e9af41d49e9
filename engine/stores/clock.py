"""`SystemClock` implements `engine.contract.context.Clock` with the system clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """The system clock. Tests inject another clock."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return monotonic time in seconds."""
        return time.monotonic()

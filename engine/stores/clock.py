"""`SystemClock` implements `engine.contract.context.Clock` with the system clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """The system clock. Tests inject another clock."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)  # monotonic time in seconds

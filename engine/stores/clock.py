"""`SystemClock`: the machine's own time, for `engine.contract.context.Clock`."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Real time. Tests inject a clock of their own instead."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only ever grow."""
        return time.monotonic()

"""Fixes the time that code in the box reads, so that tests can state results that depend on the time (GATE-6)."""

import datetime as dt
import time

from sandbox.bridge.in_box.knackbox_clock import replace_wall_clock


class FixedClock:
    """The time that all code in this process reads.

    Attributes:
        text: The fixed time in UTC, in ISO 8601; "" while the real time is used.
    """

    def __init__(self) -> None:
        """Create a clock that shows the real time. Nothing is replaced before `install`."""
        self.text = ""
        self._seconds = 0.0
        self._real = time.time

    def install(self) -> None:
        """Replace the functions that read the clock. Call it before code that imports these functions is loaded."""
        replace_wall_clock(self.now)

    def fix(self, moment: str | dt.date) -> None:
        """Stop the clock at a time, such as "2026-03-01T09:30". A time without an offset is local time.

        Raises:
            ValueError: The text is not in ISO 8601.
        """
        text = moment if isinstance(moment, str) else moment.isoformat()
        found = dt.datetime.fromisoformat(text).astimezone(dt.UTC)
        self.text, self._seconds = found.isoformat(), found.timestamp()

    def release(self) -> None:
        """Use the real time again."""
        self.text = ""

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        return self._seconds if self.text else self._real()

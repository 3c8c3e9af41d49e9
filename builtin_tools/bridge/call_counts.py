"""`CallCounts`: how many calls a program has made, of which tools, and how they ended."""

from collections import Counter
from typing import Any


class CallCounts:
    """Counts the calls of one program."""

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._seconds = 0.0

    def add(self, name: str, *, failed: bool) -> None:
        """Count a call."""
        self._made[name] += 1
        self._failed[name] += failed

    def spend(self, seconds: float) -> None:
        """Add the time of a call. Calls at the same time count separately."""
        self._seconds += seconds

    def summary(self) -> str:
        """Return one line: names, numbers, failures and time; "" if there were no calls."""
        if not self._made:
            return ""
        parts = [
            f"{name} {made:,}" + (f" ({bad:,} failed)" if (bad := self._failed[name]) else "")
            for name, made in self._made.most_common()
        ]
        return f"Calls: {', '.join(parts)}; {self._seconds:.1f} s"

    def data(self) -> dict[str, Any]:
        """Return the counts for the audit; empty if there were no calls."""
        return {"calls": dict(self._made), "failed": dict(+self._failed)} if self._made else {}

"""Times several candidates in turn, and computes percentiles."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Series:
    """The times of one candidate for one piece of code, in milliseconds."""

    title: str
    way: str
    times: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.times)

    @property
    def p50(self) -> float:
        return self._at(0.50)

    @property
    def p95(self) -> float:
        return self._at(0.95)

    @property
    def p99(self) -> float:
        """The 99th percentile. With fewer than about 50 times, it is the longest."""
        return self._at(0.99)

    def _at(self, share: float) -> float:
        """Return the nearest-rank percentile."""
        return sorted(self.times)[max(0, round(share * self.count) - 1)]

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.title,
            "way": self.way,
            "count": self.count,
            "p50_ms": self.p50,
            "p95_ms": self.p95,
            "p99_ms": self.p99,
        }


async def measure(
    title: str,
    ways: Mapping[str, Callable[[], Awaitable[Any]]],
    rounds: int,
    tick: Callable[[], None],
    *,
    pause_s: float = 0.0,
) -> list[Series]:
    """Run every candidate once per round, in turn.

    Args:
        title: Names the code that runs.
        ways: The candidates by name.
        rounds: The number of rounds.
        tick: Called after each round.
        pause_s: Pause before each run, so that background work of one candidate is not counted for the next.

    Raises:
        RuntimeError: A run failed.
    """
    times: dict[str, list[float]] = {way: [] for way in ways}
    for way, run in ways.items():
        for _ in range(min(_WARM_UP, rounds)):
            _check(way, await run())
    for _ in range(rounds):
        for way, run in ways.items():
            if pause_s:
                await asyncio.sleep(pause_s)
            start = time.perf_counter()
            result = await run()
            times[way].append((time.perf_counter() - start) * 1e3)
            _check(way, result)
        tick()
    return [Series(title, way, tuple(values)) for way, values in times.items()]


def _check(way: str, result: Any) -> None:
    if not getattr(result, "success", result):
        raise RuntimeError(f"{way} failed: {getattr(result, 'error', result)}")

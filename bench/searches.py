"""Times searches that take turns for each request, by the clock and by processor time."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.timing import Series


def timed_searches(
    ways: Mapping[str, Callable[[str], object]], texts: Sequence[str], what: str, console: Console
) -> list[dict[str, Any]]:
    """Search for each text in every way, after one search of each as a warm-up.

    Args:
        ways: The searches by name. The first is the baseline of the ratios.
        texts: The requests.
        what: The name of the measurement.
        console: Where to show the progress.

    Returns:
        A row for each way, with percentiles in milliseconds and its ratio to the first way.
    """
    times: dict[str, list[float]] = {way: [] for way in ways}
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    for run in ways.values():
        run(texts[0])
    for text in track(texts, what, console=console, transient=True):
        for way, run in ways.items():
            began, used = time.perf_counter(), time.process_time()
            run(text)
            cpu[way].append((time.process_time() - used) * 1e3)
            times[way].append((time.perf_counter() - began) * 1e3)
    series = [Series(what, way, tuple(values)) for way, values in times.items()]
    return [
        {
            **one.as_dict(),
            "what": what,
            "ratio": one.p50 / series[0].p50,
            "cpu_p95_ms": Series(what, one.way, tuple(cpu[one.way])).p95,
        }
        for one in series
    ]

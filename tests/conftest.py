"""Settings for all tests, so that no result depends on the speed of the machine or the width of a terminal."""

import logging
import os
import random

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("knackbox", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("knackbox")
# A destructor that runs late may log to a stream that pytest has closed. Python then prints the stack, for which it
# parses source code, and before 3.11.8 that fails within another parse (python/cpython#106905).
logging.raiseExceptions = False
# readline sets these for the processes that pytest-xdist starts, and tables would be fitted to them.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--order-seed", type=int, default=None, help="run files, and the tests of each, in a random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files with the longest tests first, so that parallel workers end together. Shuffle with `--order-seed`.

    Tests of one file stay together, because they share fixtures.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(str(item.path), []).append(item)
    ordered = list(files.values())
    seed = config.getoption("--order-seed")
    if seed is None:
        ordered.sort(key=lambda tests: max(map(_time_limit, tests)), reverse=True)
    else:
        order = random.Random(seed)
        order.shuffle(ordered)
        for tests in ordered:
            order.shuffle(tests)
    items[:] = [item for tests in ordered for item in tests]


def _time_limit(item: pytest.Item) -> float:
    """Return the time limit of a test in seconds, which is longest for those that take longest."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None and marker.args else 0.0

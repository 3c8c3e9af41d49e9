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
    """Shuffle the files, and the tests within each file, with `--order-seed`. Tests of one file stay together.

    The tests of a file share fixtures.
    """
    seed = config.getoption("--order-seed")
    if seed is None:
        return
    order = random.Random(seed)
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(str(item.path), []).append(item)
    shuffled = list(files.values())
    order.shuffle(shuffled)
    for tests in shuffled:
        order.shuffle(tests)
    items[:] = [item for tests in shuffled for item in tests]

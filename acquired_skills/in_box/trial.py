"""In the box: something else in the skill's place, and whether the tests notice. Each in a fork that ends with it."""

import contextlib
import os
import select
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from acquired_skills.in_box.switch import Switch

NOTICED, UNNOTICED, UNABLE = b"n", b"u", b"x"


def trial(
    switch: Switch, make: Callable[[], Callable[..., Any]], items: Sequence[pytest.Item], seconds: float
) -> bytes:
    """NOTICED, UNNOTICED, or UNABLE when it could not be made: what the tests say of a function in the skill's place.

    switch: between the skill and its tests. make: makes the function, in the fork. No word within the time, or none at
    all, is a failure of that function like any other. The word is the fork's own, and the function's code runs in that
    fork, so it can be forged: by the skill about itself (SKILL-7), which is why no other skill's code may come here.
    """
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        try:
            os.write(sink, _said(switch, make, items))
        except Exception:  # noqa: BLE001 -- a fault of ours says nothing of the function
            traceback.print_exc()
            os.write(sink, UNABLE)
        finally:
            os._exit(0)
    os.close(sink)
    try:
        said = os.read(source, 1) if select.select([source], [], [], seconds)[0] else NOTICED
    finally:
        os.close(source)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return said or NOTICED


def _said(switch: Switch, make: Callable[[], Callable[..., Any]], items: Sequence[pytest.Item]) -> bytes:
    try:
        switch.replace(make())
    except BaseException:  # noqa: BLE001 -- whatever its own module raises
        return UNABLE
    config = items[0].config
    config.option.tbstyle = "no"  # nobody reads it
    watcher = _FirstFailure()
    config.pluginmanager.register(watcher)
    for item, following in zip(items, [*items[1:], None], strict=True):
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if watcher.failed:
            return NOTICED
    return UNNOTICED


class _FirstFailure:
    failed = False

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed

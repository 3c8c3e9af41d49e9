"""The number of boxes that are kept ready follows the demand."""

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.contract import Job
from sandbox.forkserver import ready_size
from sandbox.forkserver.ready_size import ReadySize
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from tests.eventually import eventually
from tests.sandbox.soak import residue


@pytest.mark.spec("BOX-7")
@given(st.integers(0, 4), st.integers(0, 10), st.lists(st.floats(0, 100), max_size=30))
def test_the_size_stays_between_its_bounds_and_returns_to_the_least(least: int, most: int, pauses: list[float]) -> None:
    size, now = ReadySize(least, most), 0.0
    for pause in pauses:
        now += pause
        size.missed(now)
        assert least <= size.at(now) <= max(least, most)
    assert size.at(now + 10_000) == least


@pytest.mark.spec("BOX-7")
def test_each_miss_adds_one_and_each_quiet_period_takes_one_away() -> None:
    size = ReadySize(1, 4)
    for _ in range(10):
        size.missed(0.0)
    assert [size.at(seconds) for seconds in (0.0, 19.0, 21.0, 42.0, 1000.0)] == [4, 4, 3, 2, 1]


@pytest.mark.slow
@pytest.mark.spec("BOX-7")
async def test_boxes_that_were_kept_for_a_load_are_discarded_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_size, "_FORGOTTEN_S", 6.0)
    others = set(residue.parts(os.getpid())["code"])  # of sandboxes of other tests

    def waiting() -> int:
        return len(set(residue.parts(os.getpid())["code"]) - others)

    async with NamespaceSandbox(NamespaceConfig(warm=1, most_warm=4)) as box:
        await asyncio.gather(*(box.run(Job(code="import time; time.sleep(0.1)")) for _ in range(12)))
        await eventually(lambda: waiting() > 2)
        await eventually(lambda: waiting() == 1)


@pytest.mark.spec("BOX-7")
def test_nothing_beyond_the_least_is_kept_while_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    size = ReadySize(1, 4)
    size.missed(0.0)
    assert size.at(0.0) == 2
    monkeypatch.setattr(ready_size, "available_share", lambda: 0.05)
    assert size.at(0.0) == 1

"""Requests to a host are spaced, also those that wait at the same time."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.web.route.host_pace import HostPace
from engine.contract.failure import ToolFailure

pytestmark = pytest.mark.spec("WEB-1")


class ManualClock:
    """A clock whose time passes only in `sleep`."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        end = self.time + seconds
        await asyncio.sleep(0)
        self.time = max(self.time, end)


def pace(clock: ManualClock, *, burst: int = 3, longest_wait_s: float = 1e9) -> HostPace:
    return HostPace(clock, requests_per_s=0.5, burst=burst, longest_wait_s=longest_wait_s, sleep=clock.sleep)


@given(st.integers(1, 5), st.lists(st.floats(0, 20), max_size=30))
async def test_in_no_period_are_more_requests_sent_than_the_burst_and_the_rate_allow(
    burst: int, pauses: list[float]
) -> None:
    clock, sent = ManualClock(), list[float]()
    limit = pace(clock, burst=burst)
    for pause in pauses:
        clock.time += pause
        await limit.wait("example.org")
        sent.append(clock.time)
    for first, start in enumerate(sent):
        for last, end in enumerate(sent[first:], first):
            assert last - first + 1 <= burst + (end - start) * 0.5 + 1e-6


async def test_requests_that_wait_at_the_same_time_get_different_times() -> None:
    clock, sent = ManualClock(), list[float]()
    limit = pace(clock, burst=1)

    async def request() -> None:
        await limit.wait("example.org")
        sent.append(clock.time)

    await asyncio.gather(*(request() for _ in range(4)))
    assert sent == [0.0, 2.0, 4.0, 6.0]


async def test_hosts_do_not_wait_for_each_other() -> None:
    clock = ManualClock()
    limit = pace(clock, burst=1)
    for host in ("a.example", "b.example", "c.example"):
        await limit.wait(host)
    assert clock.time == 0.0


async def test_a_request_that_would_wait_too_long_is_refused_and_not_counted() -> None:
    clock = ManualClock()
    limit = pace(clock, burst=1, longest_wait_s=1.0)
    await limit.wait("example.org")
    for _ in range(3):
        with pytest.raises(ToolFailure) as caught:
            await limit.wait("example.org")
        assert caught.value.retry_after == 2.0
    clock.time = 1.5
    await limit.wait("example.org")
    assert clock.time == 2.0


async def test_a_pause_that_a_server_requests_is_limited_to_an_hour() -> None:
    clock = ManualClock()
    limit = pace(clock)
    limit.hold("example.org", 1e12)
    await limit.wait("example.org")
    assert clock.time == 3600.0


async def test_the_pauses_that_robots_txt_asks_for_are_kept() -> None:
    clock = ManualClock()
    limit = pace(clock, burst=1)
    limit.slow_down("example.org", 10.0)
    for _ in range(3):
        await limit.wait("example.org")
    assert clock.time == 20.0

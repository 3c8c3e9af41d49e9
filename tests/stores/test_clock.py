"""The clock."""

from datetime import timedelta

from engine.stores.clock import SystemClock


def test_now_is_in_utc_and_monotonic_time_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    first = clock.monotonic()
    assert clock.monotonic() >= first

"""Triggers compute the right instants, also where clocks change. Five zones with different changes are compared with a
search through all seconds.
"""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin_tools.schedule.triggers.cron import CronFieldsError, CronTrigger, cron_fields
from builtin_tools.schedule.triggers.trigger import (
    AnyTrigger,
    DayTrigger,
    IntervalTrigger,
    OnceTrigger,
    trigger_of_json,
    trigger_to_json,
)
from builtin_tools.schedule.triggers.wall_time import first_instant, instant_of, local_time, moment_of

pytestmark = pytest.mark.spec("JOB-1", "JOB-2")

# Berlin and New York change at night, Lord Howe by half an hour, Santiago and Cairo at midnight.
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo")
YEAR = (datetime(2025, 12, 31, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC))


def changes(name: str) -> list[datetime]:
    """Return the hours in the year before which the zone's offset changes."""
    zone, found, moment = ZoneInfo(name), [], YEAR[0]
    while moment < YEAR[1]:
        later = moment + timedelta(hours=1)
        if moment.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            found.append(later)
        moment = later
    return found


JANUARY = datetime(2026, 1, 1)  # noqa: DTZ001 -- a wall-clock time


def matches(expression: str, local: datetime) -> bool:
    """Return whether cron fields match a wall-clock time, by cronsim without any zone."""
    return next(CronSim(expression, local - timedelta(seconds=1))) == local


def searched(expression: str, name: str, start: datetime, end: datetime) -> list[int]:
    """Return the instants in [start, end) by looking at every minute. The second of the expression must be 0."""
    zone, found = ZoneInfo(name), set()
    if len(CronSim(expression, JANUARY).hours) == 24:
        moment = start
        while moment < end:
            local = moment.astimezone(zone).replace(tzinfo=None)
            if matches(expression, local):
                found.add(instant_of(moment))
            moment += timedelta(minutes=1)
    else:
        local = start.astimezone(zone).replace(tzinfo=None, fold=0) - timedelta(hours=3)
        last = end.astimezone(zone).replace(tzinfo=None, fold=0) + timedelta(hours=3)
        while local < last:
            if matches(expression, local):
                found.add(first_instant(local, zone))
            local += timedelta(minutes=1)
    return sorted(each for each in found if instant_of(start) <= each < instant_of(end))


def produced(trigger: AnyTrigger, start: datetime, end: datetime) -> list[int]:
    found, at = [], trigger.next_after(instant_of(start) - 1)
    while at is not None and at < instant_of(end):
        found.append(at)
        at = trigger.next_after(at)
    return found


MINUTES = st.sampled_from(["0", "30", "15,45", "*/20", "59", "1-3", "*"])
HOURS = st.sampled_from(["*", "0", "1", "2", "3", "*/2", "0-3", "23", "1,2", "0-23", "8-18"])
DAYS = st.sampled_from(["*", "*", "*", "1-7", "L", "25-31"])
WEEKDAYS = st.sampled_from(["*", "*", "*", "1-5", "SUN", "6#1"])


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=25, deadline=None)
@given(minutes=MINUTES, hours=HOURS, days=DAYS, weekdays=WEEKDAYS, which=st.integers(0, 1), offset=st.integers(-20, 20))
def test_cron_instants_around_changes_of_the_clocks_are_those_of_a_search(
    *, zone: str, minutes: str, hours: str, days: str, weekdays: str, which: int, offset: int
) -> None:
    assert len(changes(zone)) == 2
    change = changes(zone)[which]
    start, end = change - timedelta(hours=30, minutes=offset), change + timedelta(hours=30)
    expression = cron_fields(f"{minutes} {hours} {days} * {weekdays}")
    assert produced(CronTrigger((expression,), zone), start, end) == searched(expression, zone, start, end)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("time", ["30 0", "30 1", "15 2", "0 3", "0 12"])
def test_a_daily_job_runs_once_on_every_local_date_of_a_year(zone: str, time: str) -> None:
    found = produced(CronTrigger((cron_fields(f"{time} * * *"),), zone), *YEAR)
    dates = [local_time(each, ZoneInfo(zone)).date() for each in found]
    assert dates == sorted(set(dates))
    assert (dates[-1] - dates[0]).days + 1 == len(dates)


@pytest.mark.parametrize("zone", ZONES)
def test_an_hourly_job_runs_in_every_hour_that_passes(zone: str) -> None:
    found = produced(CronTrigger((cron_fields("30 * * * *"),), zone), *YEAR)
    hours = (YEAR[1] - YEAR[0]) // timedelta(hours=1)
    assert abs(len(found) - hours) <= 2


@given(
    zone=st.sampled_from(ZONES),
    seconds=st.sampled_from(["0", "*/20", "59", "*"]),
    start=st.datetimes(*(each.replace(tzinfo=None) for each in YEAR)),
)
def test_instants_with_seconds_are_strictly_increasing(zone: str, seconds: str, start: datetime) -> None:
    trigger = CronTrigger((cron_fields(f"{seconds} 30 2 * * *"),), zone)
    at = instant_of(start.replace(tzinfo=UTC))
    for _ in range(200):
        later = trigger.next_after(at)
        assert later is not None
        assert later > at
        assert later % 1000 == 0
        at = later


@pytest.mark.parametrize(
    ("expression", "day", "instants"),
    [
        ("0 30 2 * * *", "2026-03-29", ["2026-03-29T01:00"]),  # clocks skip 02:30, so it runs when they change
        ("0 30 2 * * *", "2026-10-25", ["2026-10-25T00:30"]),  # clocks show 02:30 twice
        (
            "0 0 * * * *",
            "2026-10-25",
            [f"2026-10-{24 if hour < 0 else 25}T{hour % 24:02}:00" for hour in range(-2, 23)],
        ),
        (
            "0 15,45 * * * *",
            "2026-10-25",
            [f"2026-10-{24 if n < 0 else 25}T{n // 4 % 24:02}:{n % 4 * 15}" for n in range(-7, 92, 2)],
        ),
        ("0 0,30 2,3 * * *", "2026-03-29", ["2026-03-29T01:00", "2026-03-29T01:30"]),
    ],
)
def test_changes_of_the_clocks_in_berlin(expression: str, day: str, instants: list[str]) -> None:
    zone = ZoneInfo("Europe/Berlin")
    start = datetime.fromisoformat(day).replace(tzinfo=zone)
    end = (start + timedelta(days=1)).replace(fold=0)
    found = produced(CronTrigger((expression,), "Europe/Berlin"), start, end)
    assert [moment_of(each).strftime("%Y-%m-%dT%H:%M") for each in found] == instants


@pytest.mark.parametrize("expression", ["0 30 * * * *", "0 0,30 * * * *", "0 59 * * * *", "0 */20 * * * *"])
def test_clocks_that_change_by_half_an_hour_show_times_again(expression: str) -> None:
    for change in changes("Australia/Lord_Howe"):
        start, end = change - timedelta(hours=5), change + timedelta(hours=5)
        found = produced(CronTrigger((expression,), "Australia/Lord_Howe"), start, end)
        assert found == searched(expression, "Australia/Lord_Howe", start, end)


def test_a_rare_hourly_job_is_found_across_many_changes_of_the_clocks() -> None:
    trigger = CronTrigger((cron_fields("30 * 29 2 *"),), "America/Santiago")
    found = produced(trigger, datetime(2026, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC))
    assert len(found) == 24
    assert moment_of(found[0]).isoformat() == "2028-02-29T03:30:00+00:00"


@given(every=st.integers(1_000, 10**9), anchor=st.integers(0, 2**41), instant=st.integers(0, 2**42))
def test_the_instants_of_an_interval_are_equally_far_apart(every: int, anchor: int, instant: int) -> None:
    found = IntervalTrigger(every, anchor, "UTC").next_after(instant)
    assert found is not None
    assert (found - anchor) % every == 0
    assert found > max(instant, anchor)
    assert found - every <= max(instant, anchor)


@given(zone=st.sampled_from(ZONES), days=st.integers(1, 40), instant=st.integers(1767000000000, 1800000000000))
def test_a_job_every_few_days_keeps_its_wall_clock_time(zone: str, days: int, instant: int) -> None:
    trigger = DayTrigger(days, "2026-01-05T12:15:00", zone)
    found = trigger.next_after(instant)
    assert found is not None
    local = local_time(found, ZoneInfo(zone))
    assert local.strftime("%H:%M") == "12:15"
    assert (local.date() - date(2026, 1, 5)).days % days == 0
    assert trigger.next_after(found - 1) == found


def test_a_single_instant_comes_once() -> None:
    trigger = OnceTrigger(5_000, "UTC")
    assert trigger.next_after(4_999) == 5_000
    assert trigger.next_after(5_000) is None


@pytest.mark.parametrize(
    "trigger",
    [
        CronTrigger(("0 0 9 * * 1-5",), "Europe/Berlin"),
        IntervalTrigger(900_000, 17, "UTC"),
        DayTrigger(2, "2026-01-05T12:15:00", "Africa/Cairo"),
        OnceTrigger(5, "UTC"),
    ],
)
def test_a_stored_trigger_is_the_same(trigger: AnyTrigger) -> None:
    assert trigger_of_json(trigger_to_json(trigger)) == trigger


@pytest.mark.parametrize("text", ["0 25 * * *", "0 0 30 2 *", "* * *", "a b c d e", "@never", "0 0 * * * * *"])
def test_an_invalid_cron_expression_is_refused(text: str) -> None:
    with pytest.raises(CronFieldsError, match=r"cron expression|matches no date"):
        cron_fields(text)


def test_macros_are_cron_expressions() -> None:
    assert cron_fields("@daily") == "0 0 0 * * *"
    assert cron_fields("*/5 * * * * *") == "*/5 * * * * *"

"""Spoken time expressions become half-open ranges in the user's time zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.times.time_expressions import TimeRange, find_ranges, resolve

BERLIN = ZoneInfo("Europe/Berlin")
WEDNESDAY = datetime(2026, 3, 11, 15, 30, tzinfo=BERLIN)

pytestmark = pytest.mark.spec("MEM-4")


def local(moment: datetime | None, zone: ZoneInfo) -> str:
    return "" if moment is None else moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def ends(found: TimeRange | None, zone: ZoneInfo = BERLIN) -> tuple[str, str] | None:
    return None if found is None else (local(found.start, zone), local(found.end, zone))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("yesterday morning", "2026-03-10 05:00", "2026-03-10 12:00"),
        ("this Friday 6pm", "2026-03-13 18:00", "2026-03-13 19:00"),
        ("this Friday at 18:00", "2026-03-13 18:00", "2026-03-13 19:00"),
        ("last week", "2026-03-02 00:00", "2026-03-09 00:00"),
        ("this week", "2026-03-09 00:00", "2026-03-16 00:00"),
        ("the week before last", "2026-02-23 00:00", "2026-03-02 00:00"),
        ("last weekend", "2026-03-07 00:00", "2026-03-09 00:00"),
        ("in March 2024", "2024-03-01 00:00", "2024-04-01 00:00"),
        ("in March", "2026-03-01 00:00", "2026-04-01 00:00"),
        ("in April", "2025-04-01 00:00", "2025-05-01 00:00"),
        ("two days ago", "2026-03-09 00:00", "2026-03-10 00:00"),
        ("3 weeks ago", "2026-02-16 00:00", "2026-02-23 00:00"),
        ("half an hour ago", "2026-03-11 14:30", "2026-03-11 15:30"),
        ("since Monday", "2026-03-09 00:00", ""),
        ("before June 2021", "", "2021-06-01 00:00"),
        ("until yesterday", "", "2026-03-11 00:00"),
        ("after 5 May 2023", "2023-05-06 00:00", ""),
        ("between March and May 2024", "2024-03-01 00:00", "2024-06-01 00:00"),
        ("from Monday to Wednesday", "2026-03-09 00:00", "2026-03-12 00:00"),
        ("last month", "2026-02-01 00:00", "2026-03-01 00:00"),
        ("the past 10 days", "2026-03-01 15:30", "2026-03-11 15:30"),
        ("last night", "2026-03-10 18:00", "2026-03-11 05:00"),
        ("tonight", "2026-03-11 18:00", "2026-03-12 05:00"),
        ("tomorrow at noon", "2026-03-12 12:00", "2026-03-12 13:00"),
        ("last Monday evening at 8", "2026-03-09 20:00", "2026-03-09 21:00"),
        ("on 5 May 2023", "2023-05-05 00:00", "2023-05-06 00:00"),
        ("May 5th, 2023", "2023-05-05 00:00", "2023-05-06 00:00"),
        ("Q1 2025", "2025-01-01 00:00", "2025-04-01 00:00"),
        ("last summer", "2025-06-01 00:00", "2025-09-01 00:00"),
        ("in 2023", "2023-01-01 00:00", "2024-01-01 00:00"),
        ("2024-03-05", "2024-03-05 00:00", "2024-03-06 00:00"),
        ("2024-03-05T10:00+00:00", "2024-03-05 11:00", "2024-03-05 12:00"),
        ("gestern", "2026-03-10 00:00", "2026-03-11 00:00"),
        ("6pm", "2026-03-11 18:00", "2026-03-11 19:00"),
    ],
)
def test_an_expression_means_a_range(text: str, start: str, end: str) -> None:
    assert ends(resolve(text, WEDNESDAY, BERLIN)) == (start, end)


@pytest.mark.parametrize("text", ["", "the car", "soon enough", "may", "I march on"])
def test_a_text_without_a_time_means_none(text: str) -> None:
    assert find_ranges(text, WEDNESDAY, BERLIN) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What did I say yesterday morning about the car?", ["yesterday morning"]),
        ("Ada moved to Berlin in March 2024", ["in March 2024"]),
        ("Who came last week, and who on Monday?", ["last week", "on Monday"]),
        ("How old is she, may I ask?", []),
        ("version 2.1.24 of the second day", []),
    ],
)
def test_expressions_are_found_in_a_question(text: str, found: list[str]) -> None:
    assert [each.text for each in find_ranges(text, WEDNESDAY, BERLIN)] == found


@pytest.mark.parametrize(
    ("zone", "hours"), [("Europe/Berlin", 23), ("America/New_York", 24), ("Asia/Kolkata", 24), ("Pacific/Auckland", 24)]
)
def test_a_day_on_which_the_clocks_change_is_shorter(zone: str, hours: int) -> None:
    monday = datetime(2026, 3, 30, 9, tzinfo=ZoneInfo(zone))  # in Berlin, clocks were advanced on the day before
    found = resolve("yesterday", monday, ZoneInfo(zone))
    assert found is not None
    assert found.end is not None
    assert found.start is not None
    assert (found.end - found.start) == timedelta(hours=hours)


def test_hours_ago_are_counted_in_real_time_when_the_clocks_change() -> None:
    now = datetime(2026, 3, 29, 4, 0, tzinfo=BERLIN)  # one hour after 02:00 became 03:00
    found = resolve("3 hours ago", now, BERLIN)
    assert found is not None
    assert found.contains(now.astimezone(UTC) - timedelta(hours=3))


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "America/Santiago", "Asia/Beirut"])
def test_today_contains_now_in_every_zone(zone: str) -> None:
    for days in range(0, 366, 7):
        now = datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=days)
        found = resolve("today", now, ZoneInfo(zone))
        assert found is not None
        assert found.contains(now)


@given(
    st.integers(631_152_000, 2_840_140_800),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
    st.sampled_from(
        ["yesterday", "last week", "last month", "last year", "last Friday", "yesterday evening", "two months ago"]
    ),
)
def test_a_past_expression_is_a_nonempty_range_that_began_before_now(seconds: int, zone: str, text: str) -> None:
    now = datetime.fromtimestamp(seconds, UTC)
    found = resolve(text, now, ZoneInfo(zone))
    assert found is not None
    assert found.start is not None
    assert found.end is not None
    assert found.start < found.end
    assert found.start < now

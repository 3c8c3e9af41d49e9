"""Spoken schedules are understood in the user's time zone, and what is not understood is refused with an example."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin_tools.schedule.triggers.spoken import ScheduleError, read_schedule
from builtin_tools.schedule.triggers.trigger import AnyTrigger
from builtin_tools.schedule.triggers.wall_time import instant_of, moment_of

pytestmark = pytest.mark.spec("JOB-2")

BERLIN = ZoneInfo("Europe/Berlin")
WEDNESDAY = datetime(2026, 3, 11, 15, 30, tzinfo=BERLIN)


def read(text: str) -> AnyTrigger:
    return read_schedule(text, WEDNESDAY, BERLIN)


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("0 9 * * 1-5", "cron 0 0 9 * * 1-5 (Europe/Berlin)"),
        ("*/10 * * * * *", "cron */10 * * * * * (Europe/Berlin)"),
        ("0 9 * * mon-fri", "cron 0 0 9 * * MON-FRI (Europe/Berlin)"),
        ("@daily", "cron 0 0 0 * * * (Europe/Berlin)"),
        ("every weekday at 9", "cron 0 0 9 * * 1-5 (Europe/Berlin)"),
        ("Every weekday at 9:30 p.m.", "cron 0 30 21 * * 1-5 (Europe/Berlin)"),
        ("weekdays at 9", "cron 0 0 9 * * 1-5 (Europe/Berlin)"),
        ("every weekend at noon", "cron 0 0 12 * * 0,6 (Europe/Berlin)"),
        ("every day at 18:30", "cron 0 30 18 * * * (Europe/Berlin)"),
        ("daily at 9 and 17:30", "cron 0 0 9 * * * | 0 30 17 * * * (Europe/Berlin)"),
        ("every morning", "cron 0 0 8 * * * (Europe/Berlin)"),
        ("every morning at 7", "cron 0 0 7 * * * (Europe/Berlin)"),
        ("every evening at 8", "cron 0 0 20 * * * (Europe/Berlin)"),
        ("every Monday and Friday at 9am", "cron 0 0 9 * * 1,5 (Europe/Berlin)"),
        ("every Tue, Thu and Sun at 6 pm", "cron 0 0 18 * * 0,2,4 (Europe/Berlin)"),
        ("on Mondays at 8", "cron 0 0 8 * * 1 (Europe/Berlin)"),
        ("every week on Monday at 9", "cron 0 0 9 * * 1 (Europe/Berlin)"),
        ("every month on the 1st and 15th at 8:30", "cron 0 30 8 1,15 * * (Europe/Berlin)"),
        ("on the last day of every month at 18:00", "cron 0 0 18 L * * (Europe/Berlin)"),
        ("monthly on the 3rd at midnight", "cron 0 0 0 3 * * (Europe/Berlin)"),
        ("every first Monday of the month at 9", "cron 0 0 9 * * 1#1 (Europe/Berlin)"),
        ("the last Friday of every month at 17", "cron 0 0 17 * * 5L (Europe/Berlin)"),
        ("every year on 24 December at 18", "cron 0 0 18 24 12 * (Europe/Berlin)"),
        ("yearly on March 1st at 8", "cron 0 0 8 1 3 * (Europe/Berlin)"),
        ("every 15 minutes", "every 900 s"),
        ("every 15m", "every 900 s"),
        ("every hour", "every 3600 s"),
        ("hourly", "every 3600 s"),
        ("every half hour", "every 1800 s"),
        ("every other hour", "every 7200 s"),
        ("every 90 seconds", "every 90 s"),
        ("every day", "every 1 days at 15:30:00 from 2026-03-12 (Europe/Berlin)"),
        ("every other day at 9", "every 2 days at 09:00:00 from 2026-03-12 (Europe/Berlin)"),
        ("every 2 weeks on Monday at 9", "every 14 days at 09:00:00 from 2026-03-16 (Europe/Berlin)"),
        ("in 20 minutes", "once at 2026-03-11T15:50:00+01:00"),
        ("in half an hour", "once at 2026-03-11T16:00:00+01:00"),
        ("in 1 hour and 30 minutes", "once at 2026-03-11T17:00:00+01:00"),
        ("in 1h30m", "once at 2026-03-11T17:00:00+01:00"),
        ("in 3 weeks", "once at 2026-04-01T15:30:00+02:00"),
        ("tomorrow at 9", "once at 2026-03-12T09:00:00+01:00"),
        ("at 18:00", "once at 2026-03-11T18:00:00+01:00"),
        ("at 9 am", "once at 2026-03-12T09:00:00+01:00"),
        ("Wednesday at 9:00", "once at 2026-03-18T09:00:00+01:00"),
        ("this Friday at 6pm", "once at 2026-03-13T18:00:00+01:00"),
        ("on 5 May 2027 at 14:00", "once at 2027-05-05T14:00:00+02:00"),
        ("2026-04-01T08:00", "once at 2026-04-01T08:00:00+02:00"),
        ("2026-04-01T08:00Z", "once at 2026-04-01T10:00:00+02:00"),
    ],
)
def test_schedules_are_understood(text: str, description: str) -> None:
    assert read(text).describe() == description


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("whenever", "not understood"),
        ("", "not understood"),
        ("every", "not understood"),
        ("tomorrow", "names no time of day"),
        ("every Monday", "names no time of day"),
        ("yesterday at 9:00", "in the past"),
        ("2020-01-01T00:00", "in the past"),
        ("every day at 25:00", "not a time of day"),
        ("every 0 seconds", "shortest interval"),
        ("every hour at 9", "only days and weeks"),
        ("0 25 * * *", "bad hour"),
        ("every month on the 32nd at 9", "does not exist"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        read(text)


def test_the_same_words_are_other_instants_in_another_zone() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    found = [read_schedule("every day at 9", now, ZoneInfo(each)) for each in ("Asia/Tokyo", "America/New_York")]
    instants = [each.next_after(instant_of(now)) for each in found]
    assert [moment_of(each or 0).isoformat() for each in instants] == [
        "2026-06-02T00:00:00+00:00",
        "2026-06-01T13:00:00+00:00",
    ]


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=40)
    | st.lists(
        st.sampled_from(
            [
                "every",
                "day",
                "at",
                "9",
                "monday",
                "15",
                "minutes",
                "in",
                "and",
                "the",
                "of",
                "month",
                "first",
                "1st",
                "last",
                "hour",
                "on",
                "week",
                "25:00",
                "am",
                "weekday",
                "*",
                "*/5",
                "half",
            ]
        ),
        max_size=8,
    ).map(" ".join)
)
def test_any_text_is_either_a_trigger_in_the_future_or_refused(text: str) -> None:
    try:
        trigger = read(text)
    except ScheduleError:
        return
    found = trigger.next_after(instant_of(WEDNESDAY))
    assert found is not None
    assert found > instant_of(WEDNESDAY)

"""Newer statements close older ones and keep them; "now" and "as of" are right in whatever order facts are learned."""

import random
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from builtin_tools.memory.contradictions import AddedFact, add_fact
from builtin_tools.memory.entries import Entry, EntryKind, EntrySource, NewEntry, SourceKind
from builtin_tools.memory.reading import read_fact
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import EntrySelection
from tests.builtin_tools.memory.conftest import SetClock

ADA = "user:ada"
GENERAL = "personal:general"
ZONE = ZoneInfo("UTC")

pytestmark = pytest.mark.spec("MEM-5")


def add(store: MemoryStore, clock: SetClock, text: str, holds_from: float | None = None, owner: str = ADA) -> AddedFact:
    read = read_fact(text, clock.now(), ZONE)
    new = NewEntry(
        owner,
        GENERAL,
        EntryKind.FACT,
        text,
        EntrySource(SourceKind.USER, "ada"),
        holds_from=read.holds_from if holds_from is None else holds_from,
        holds_to=read.holds_to,
        statement=read.statement,
        skeleton=read.skeleton,
        data=read.data,
    )
    with store.changing() as memory:
        return add_fact(memory, new, read.instead_of)


def holding(store: MemoryStore, at: float, *, about: str = "") -> list[Entry]:
    with store.reading() as memory:
        found = memory.entries([ADA], EntrySelection(holds_at=at))
    return [each for each in found if each.statement is not None and each.statement.subject.startswith(about)]


def texts(entries: list[Entry]) -> list[str]:
    return sorted(each.text for each in entries)


def test_a_newer_statement_closes_the_older_one_and_keeps_it(store: MemoryStore, clock: SetClock) -> None:
    first = add(store, clock, "Ada lives in Rome.").entry
    later = clock.later(days=30)
    second = add(store, clock, "Ada moved to Oslo.")
    assert [each.id for each in second.closed] == [first.id]
    assert texts(holding(store, later)) == ["Ada moved to Oslo."]
    assert texts(holding(store, later - 1)) == ["Ada lives in Rome."]
    with store.reading() as memory:
        old = memory.one([ADA], first.id)
    assert old is not None
    assert (old.holds_to, old.successor, old.text) == (later, second.entry.id, "Ada lives in Rome.")


def test_a_fact_from_an_earlier_time_is_put_before_the_one_that_is_known(store: MemoryStore, clock: SetClock) -> None:
    add(store, clock, "Ada moved to Oslo in 2020.")
    add(store, clock, "In 2010 Ada moved to Rome.")
    add(store, clock, "Ada moved to Bonn in 2015.")
    at = [datetime(year, 6, 1, tzinfo=UTC).timestamp() for year in (2009, 2012, 2017, 2025)]
    assert [texts(holding(store, each)) for each in at] == [
        [],
        ["In 2010 Ada moved to Rome."],
        ["Ada moved to Bonn in 2015."],
        ["Ada moved to Oslo in 2020."],
    ]


def test_a_denial_closes_what_it_denies(store: MemoryStore, clock: SetClock) -> None:
    add(store, clock, "Bob works at Acme.")
    add(store, clock, "Ada likes tea.")
    now = clock.later(days=1)
    add(store, clock, "Bob no longer works at Acme.")
    add(store, clock, "Ada doesn't like tea.")
    assert texts(holding(store, now)) == ["Ada doesn't like tea.", "Bob no longer works at Acme."]
    now = clock.later(days=1)
    add(store, clock, "Ada likes tea.")
    assert "Ada doesn't like tea." not in texts(holding(store, now))


def test_attributes_with_several_values_close_nothing(store: MemoryStore, clock: SetClock) -> None:
    for text in (
        "Ada likes tea.",
        "Ada likes coffee.",
        "Ada speaks French.",
        "Ada speaks Czech.",
        "Ada is tall",
        "Ada is a doctor",
    ):
        assert add(store, clock, text).closed == ()
        now = clock.later(hours=1)
    assert len(holding(store, now)) == 6


def test_a_change_closes_the_fact_with_the_value_that_it_names(store: MemoryStore, clock: SetClock) -> None:
    add(store, clock, "Ada's editor is vim.")
    now = clock.later(days=1)
    assert texts(list(add(store, clock, "Ada switched from vim to emacs.").closed)) == ["Ada's editor is vim."]
    assert texts(holding(store, now)) == ["Ada switched from vim to emacs."]


def test_the_same_text_is_stored_once_and_counted(store: MemoryStore, clock: SetClock) -> None:
    first = add(store, clock, "Ada lives in Rome.")
    clock.later(days=1)
    again = add(store, clock, "Ada lives in rome")
    assert (again.known, again.entry.id, again.entry.data["repeats"]) == (True, first.entry.id, 1)


def test_texts_that_differ_in_numbers_stay_open(store: MemoryStore, clock: SetClock) -> None:
    first = add(store, clock, "Platform changes at Lyon take 20 minutes on Sundays")
    clock.later(days=1)
    second = add(store, clock, "Platform changes at Lyon take 30 minutes on Sundays")
    assert [each.id for each in second.open] == [first.entry.id]
    with store.reading() as memory:
        assert len(memory.open_pairs([ADA], [second.entry.id])) == 1
        assert memory.one([ADA], first.entry.id).holds_to is None  # type: ignore[union-attr]


def test_facts_of_different_owners_and_spaces_do_not_touch_each_other(store: MemoryStore, clock: SetClock) -> None:
    add(store, clock, "The deadline is Friday.", owner="user:bob")
    assert add(store, clock, "The deadline is Monday.").closed == ()


PEOPLE = [
    "Ada",
    "Bob",
    "Eve",
    "Kim",
    "Lea",
    "Max",
    "Noa",
    "Oto",
    "Pia",
    "Rui",
    "Sam",
    "Tea",
    "Uma",
    "Vic",
    "Wim",
    "Xia",
    "Yan",
    "Zoe",
    "Ann",
    "Ben",
]
CITIES = ["Rome", "Oslo", "Bonn", "Lyon", "Kyiv", "Bern", "Graz", "Nice", "Cork", "York"]
FIRMS = ["Acme", "Globex", "Initech", "Hooli", "Umbrella", "Stark", "Wayne", "Tyrell", "Cyberdyne", "Soylent"]
NUMBERS = [f"555-{at}" for at in range(1001, 1011)]
WORDINGS = {  # attribute -> values, and several wordings of the same statement
    "home": (CITIES, "{} lives in {}.", "{} moved to {}.", "{} has relocated to {}.", "{}'s home is {}."),
    "employer": (FIRMS, "{} works at {}.", "{} joined {}.", "{}'s employer is {}.", "{} now works for {}."),
    "phone": (NUMBERS, "{}'s phone number is {}.", "{} can be reached at {}.", "{} changed her phone number to {}."),
    "manager": (PEOPLE, "{}'s boss is {}.", "{} reports to {}.", "{}'s manager is now {}."),
    "color": (
        ["red", "blue", "green", "pink", "black", "white"],
        "{}'s favourite colour is {}.",
        "{}'s favorite color is now {}.",
    ),
    "age": ([str(at) for at in range(30, 60)], "{} is {} years old.", "{} turned {}."),
    "spouse": (PEOPLE, "{} is married to {}.", "{} married {}.", "{}'s spouse is {}."),
    "car": (["Volvo", "Fiat", "Skoda", "Mini", "Saab"], "{} drives a {}.", "{}'s car is a {}."),
    "diet": (["vegetarian", "vegan", "pescatarian"], "{} is {}.", "{} became {}."),
    "salary": ([f"{at},000 euros" for at in range(30, 60)], "{} earns {}.", "{}'s salary is {}."),
}


def test_200_superseded_facts_are_right_now_and_as_of_any_time(tmp_path: Path) -> None:
    """20 people with 10 attributes each, whose values change once, twice or thrice; a third is learned out of order."""
    pick = random.Random(15)
    clock = SetClock(datetime(2020, 1, 1, tzinfo=UTC))
    store = MemoryStore.open(tmp_path / "memory.db", clock)
    start = clock.now().timestamp()
    day = 86_400.0
    timelines: dict[tuple[str, str], list[tuple[float, str]]] = {}
    events: list[tuple[float, float | None, str]] = []  # when learned, from when it holds if stated, text
    for person in PEOPLE:
        for attribute, (values, *wordings) in WORDINGS.items():
            chosen = pick.sample([value for value in values if value != person], 2 + pick.randrange(2))
            days = sorted(pick.sample(range(1, 1000), len(chosen)))
            timeline = []
            backdated = pick.random() < 1 / 3
            for at, (value, offset) in enumerate(zip(chosen, days, strict=True)):
                holds = start + offset * day
                text = pick.choice(wordings).format(person, value)
                learned = holds if not backdated else start + (1000 + pick.randrange(100) + at / 10) * day
                events.append((learned, holds if backdated else None, text))
                timeline.append((holds, text))
            timelines[person, attribute] = timeline
    superseded = sum(len(timeline) - 1 for timeline in timelines.values())
    assert superseded >= 200
    pick.shuffle(events)
    for learned, holds, text in sorted(events, key=lambda event: event[0]):
        clock.set(datetime.fromtimestamp(learned, UTC))
        add(store, clock, text, holds)
    with store.reading() as memory:
        assert texts(memory.entries([ADA])) == sorted(text for _, _, text in events)  # none is lost
        every = memory.entries([ADA])
    for at in [*(start + pick.random() * 1000 * day for _ in range(60)), start + 5000 * day]:
        expected = sorted(
            [text for holds, text in timeline if holds <= at][-1]
            for timeline in timelines.values()
            if timeline[0][0] <= at
        )
        assert sorted(each.text for each in every if each.holds_at(at)) == expected
    with store.reading() as memory:
        assert memory.count([ADA], EntrySelection(holds_at=start + 5000 * day)) == len(timelines)
    store.close()

"""Rows of child runs: each ends once, is worked on by one engine, and trees take turns (SWARM-1, SWARM-2)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.child_runs import ChildRun, ChildState, RunLimits
from engine.contract.turn import Turn
from engine.stores.child_runs import ChildRunStore, OtherTasks, TooManyChildren
from engine.stores.clock import SystemClock
from engine.stores.engine_lock import EngineLock
from engine.stores.entry_writer import EntryWriter, NewEntries, RunLease
from engine.stores.records import Records
from engine.stores.run_journal import ENDED, RunJournal

LIMITS = RunLimits(1, 1, 1_000, 1.0)


class StoreOfOneEngine:
    """The store and the journal of one engine, as several of them may use one home."""

    def __init__(self, folder: Path) -> None:
        self.leases: dict[str, RunLease] = {}
        self.lock = EngineLock(folder / "engines")
        self.records = Records.open(f"sqlite:///{folder / 'runs.db'}")
        self.writer = EntryWriter(folder / "runs.db")
        self.journal = RunJournal(self.records, self.lock, SystemClock(), self.writer)
        self.store = ChildRunStore(self.records, self.lock, SystemClock())

    def begin(self, run: str) -> None:
        self.leases[run] = self.journal.create(run, "hello", "{}", NewEntries([]), user="u", agent="a")

    def end(self, run: str, finish: str) -> None:
        self.journal.append(self.leases[run], NewEntries([], ENDED, finish))

    def close(self) -> None:
        self.writer.close()
        self.records.close()
        self.lock.close()


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[StoreOfOneEngine]:
    opened = StoreOfOneEngine(tmp_path)
    yield opened
    opened.close()


def swarm(name: str, count: int, *, parent: str = "p", root: str = "", depth: int = 1) -> list[ChildRun]:
    return [
        ChildRun(f"{name}-{at}", name, at, parent, root or parent, depth, "u", "a", f"task {at}", Turn(), LIMITS)
        for at in range(1, count + 1)
    ]


def claimed(store: ChildRunStore, free: int, depth: int = 1, *, adopt_all: bool = False) -> list[str]:
    return [child.id for child in store.step({depth: free}, adopt_all=adopt_all).claimed]


@pytest.mark.spec("SWARM-2")
def test_a_swarm_is_added_once_and_its_tasks_cannot_change(mine: StoreOfOneEngine) -> None:
    assert mine.store.add(swarm("ab", 2), 10)
    assert not mine.store.add(swarm("ab", 2), 10)
    with pytest.raises(OtherTasks):
        mine.store.add(swarm("ab", 3), 10)
    assert claimed(mine.store, 9) == ["ab-1", "ab-2"]
    assert claimed(mine.store, 9) == []


@pytest.mark.spec("SWARM-1")
def test_a_tree_has_a_bounded_number_of_children_that_have_not_ended(mine: StoreOfOneEngine) -> None:
    mine.store.add(swarm("ab", 2), 3)
    with pytest.raises(TooManyChildren):
        mine.store.add(swarm("cd", 2), 3)
    assert mine.store.end("ab-1", "answer", "", 1)
    assert mine.store.add(swarm("cd", 2), 3)


@pytest.mark.spec("SWARM-2")
def test_a_child_ends_only_once(mine: StoreOfOneEngine) -> None:
    mine.store.add(swarm("ab", 1), 3)
    assert mine.store.end("ab-1", "answer", "first", 1)
    assert not mine.store.end("ab-1", "error", "second", 2)
    found = mine.store.one("ab-1")
    assert found is not None
    assert (found.finish, found.answer) == ("answer", "first")


@pytest.mark.spec("SWARM-1")
@given(sizes=st.lists(st.integers(1, 12), min_size=2, max_size=4), free=st.integers(1, 6))
def test_trees_get_equal_numbers_of_slots(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], free: int
) -> None:
    one = StoreOfOneEngine(tmp_path_factory.mktemp("home"))
    try:
        for at, size in enumerate(sizes):
            one.store.add(swarm(f"{at:02x}", size, parent=f"p{at}"), 100)
        running: Counter[str] = Counter()
        while chosen := claimed(one.store, free):
            assert len(chosen) <= free
            running.update(child.split("-")[0] for child in chosen)
            waiting = [f"{at:02x}" for at, size in enumerate(sizes) if running[f"{at:02x}"] < size]
            for name in waiting:  # no tree has got more than one slot more than a tree that still waits
                assert max(running.values()) <= running[name] + 1
        assert sum(running.values()) == sum(sizes)
    finally:
        one.close()


@pytest.mark.spec("SWARM-2")
def test_children_of_an_engine_that_ended_are_adopted_by_the_one_that_continues_their_parent(
    tmp_path: Path, mine: StoreOfOneEngine
) -> None:
    other = StoreOfOneEngine(tmp_path)
    other.begin("p")
    other.store.add(swarm("ab", 2), 10)
    assert claimed(other.store, 1) == ["ab-1"]
    assert claimed(mine.store, 9, adopt_all=True) == [], "their engine is running"
    other.close()
    assert claimed(mine.store, 9) == [], "another engine may continue their parent"
    mine.journal.claim("p")
    assert claimed(mine.store, 9) == ["ab-1", "ab-2"]


@pytest.mark.spec("SWARM-2")
def test_the_children_of_a_cancelled_run_are_cancelled_down_the_tree(mine: StoreOfOneEngine) -> None:
    mine.begin("p")
    mine.store.add(swarm("ab", 2), 10)
    assert claimed(mine.store, 1) == ["ab-1"]
    mine.begin("ab-1")
    mine.store.add(swarm("cd", 1, parent="ab-1", root="p", depth=2), 10)
    mine.end("p", "cancelled")
    assert claimed(mine.store, 9) == []
    assert {child.id: (child.state, child.cancelled) for child in mine.store.unended()} == {
        "ab-1": (ChildState.STARTED, True)
    }
    assert mine.journal.asked_to_cancel("ab-1")


@pytest.mark.spec("SWARM-2")
def test_a_parent_is_told_once_unless_a_call_has_returned_the_answer(mine: StoreOfOneEngine) -> None:
    mine.begin("p")
    mine.store.add(swarm("ab", 2), 10)
    mine.store.end("ab-1", "answer", "first", 1)
    mine.store.end("ab-2", "answer", "second", 1)
    assert [child.id for child in mine.store.settle(["ab-1"])] == ["ab-1"]
    assert mine.store.settle(["ab-1"]) == []
    for _ in range(2):
        mine.store.tell_parents("ab", lambda child: child.answer)
    assert [message.text for message in mine.journal.messages("p")] == ["second"]
    assert [child.id for child in mine.store.settle(["ab-2"])] == ["ab-2"], "its tokens are still to be given back"


@pytest.mark.spec("SWARM-2", "LOOP-3")
def test_a_message_is_withdrawn_if_a_call_of_its_reader_returns_the_same_answer(mine: StoreOfOneEngine) -> None:
    """A child may end while its parent is resumed, before the call that awaits it has begun again."""
    mine.begin("p")
    mine.begin("q")
    mine.store.add(swarm("ab", 2), 10)
    for child in ("ab-1", "ab-2"):
        mine.store.end(child, "answer", child, 1)
    mine.store.tell_parents("ab", lambda child: child.answer)
    mine.store.settle(["ab-1"], reader="p")
    mine.store.settle(["ab-2"], reader="q")
    assert [message.text for message in mine.journal.messages("p")] == ["ab-2"]

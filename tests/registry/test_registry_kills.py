"""Writers of a registry are killed at any moment, and no acknowledged change is lost. (REG-5, REG-8)

The checks read the files with `json` and `sqlite3` only, without the code under test.
"""

import json
import os
import random
import sqlite3
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.registry.registry_victims import read_on, reconcile, write_on
from tests.stores.processes import other

pytestmark = [pytest.mark.spec("REG-5", "REG-8"), pytest.mark.slow]

WRITERS = ("left", "right")


def kills(home: Path, times: int, seed: int) -> int:
    """Run two writers and a reader, and kill one writer after another. Return how many writes were acknowledged."""
    rng = random.Random(seed)
    with ExitStack() as stack:
        reader = stack.enter_context(other(read_on, str(home)))
        assert reader.hear() == "ready"
        running = {}

        def start(name: str, first: int) -> None:
            scope = stack.enter_context(ExitStack())
            running[name] = (scope, scope.enter_context(other(write_on, str(home), name, first)))
            assert running[name][1].hear() == "ready"

        for name in WRITERS:
            start(name, 0)
        for number in range(1, times + 1):
            time.sleep(rng.random() * 0.03)  # the moment of the kill is what is left to chance
            name = rng.choice(WRITERS)
            running[name][0].close()  # kills it
            start(name, number * 1_000_000)
        for scope, _ in running.values():
            scope.close()
        reads, wrong = reader.ask("end")
        assert reads
        assert wrong == []
    with other(reconcile, str(home)) as last:
        assert last.hear() == "done"
        assert last.end() == 0
    return verified(home)


def verified(home: Path) -> int:
    items = json.loads((home / "registries" / "tools.json").read_bytes())["items"]
    assert [path.name for path in (home / "registries").iterdir() if not path.name.startswith(".tools")] == [
        "tools.json"
    ]
    possible: dict[str, set[str]] = {}
    acknowledged: Counter[str] = Counter()
    for name in WRITERS:
        for line in (home / f"{name}.journal").read_text().splitlines():
            word, item, state = line.split()
            if word == "done":
                possible[item] = {state}
                acknowledged[item] += 1
            else:  # until it is acknowledged, it has happened or not
                possible[item] = possible.get(item, {"gone"}) | {state}
    assert items.keys() <= possible.keys()
    for item, states in possible.items():
        assert (items[item]["version"] if item in items else "gone") in states
        assert item not in items or items[item]["spec_id"] == item
    published = events(home)
    last = dict(published)  # of several, the last
    assert {item for item, event in last.items() if event == "upsert"} == items.keys()
    counted = Counter(item for item, _ in published)
    deletes_of_nothing = Counter(removed_nothing(home))
    assert all(counted[item] >= acknowledged[item] - deletes_of_nothing[item] for item in acknowledged)
    return acknowledged.total()


def removed_nothing(home: Path) -> list[str]:
    """Return the items of acknowledged removals that may have found nothing, and therefore published nothing."""
    found = []
    for name in WRITERS:
        there: dict[str, set[str]] = {}
        for line in (home / f"{name}.journal").read_text().splitlines():
            word, item, state = line.split()
            before = there.get(item, {"gone"})
            if word == "done":
                if state == "gone" and "gone" in there.get(f"before {item}", {"gone"}):
                    found.append(item)
                there[item] = {state}
            else:
                there[f"before {item}"] = before
                there[item] = before | {state}
    return found


def events(home: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(home / "events.db")) as connection:
        rows = connection.execute('SELECT payload FROM events WHERE type = ? ORDER BY "offset"', ["REGISTRY_UPDATED"])
        payloads = [json.loads(row[0]) for row in rows]
    assert all(each["type"] == "REGISTRY_UPDATED" and each["subject"] == "tools" for each in payloads)
    assert all(each["space_id"] and each["ts"] for each in payloads)
    return [(each["item_id"], each["event"]) for each in payloads]


def test_killed_writers_lose_no_acknowledged_change_and_leave_a_complete_file(tmp_path: Path) -> None:
    assert kills(tmp_path, 30, seed=3) > 20


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_thousand_killed_writers_lose_no_acknowledged_change(tmp_path: Path) -> None:
    times = int(os.environ.get("SOAK_RUNS", "1000"))
    assert kills(tmp_path, times, seed=int(os.environ.get("SOAK_SEED", "5"))) > times

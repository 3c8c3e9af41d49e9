"""The stored programs of runs: their source, their result and their calls, and stores of earlier releases."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from engine.contract.canonical import digest
from engine.stores.clock import SystemClock
from engine.stores.program_store import LONGEST_RESULT, LONGEST_SOURCE, ProgramStore, StoredCall
from engine.stores.records import Records

pytestmark = pytest.mark.spec("CODE-8")

OLD = """
CREATE TABLE programs (
    id VARCHAR(200) NOT NULL PRIMARY KEY, run VARCHAR(64) NOT NULL, user VARCHAR(200) NOT NULL,
    code VARCHAR(64) NOT NULL, seed VARCHAR(64) NOT NULL, began FLOAT NOT NULL
)
"""


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    opened = Records.open(f"sqlite:///{tmp_path}/runs.db")
    try:
        with opened.begin() as connection:
            connection.execute(text("CREATE TABLE runs (id VARCHAR(40), message TEXT)"))
            connection.execute(text("INSERT INTO runs VALUES ('run-1', 'Pay Ada'), ('run-2', 'Look')"))
        yield opened
    finally:
        opened.close()


def called(position: int, name: str, **arguments: object) -> StoredCall:
    return StoredCall(position, name, arguments, digest([name, arguments]), (), {"value": name})


def test_a_program_that_succeeded_is_found_by_its_run_and_by_its_call(records: Records) -> None:
    store = ProgramStore(records, SystemClock())
    store.open("call-1", "run-1", "ada", "code", "seed", source="tools.pay(n=1)")
    store.write("call-1", [called(1, "pay", n=1)], [])
    assert store.finished("ada", "run-1") == []  # it has not ended
    store.finish("call-1", {"paid": 1}, "done\n")
    for name in ("run-1", "call-1", ""):
        [found] = store.finished("ada", name)
        assert (found.id, found.run, found.request, found.source) == ("call-1", "run-1", "Pay Ada", "tools.pay(n=1)")
        assert (found.value, found.stdout) == ({"paid": 1}, "done\n")
        assert [(call.name, call.arguments, call.answer) for call in found.calls] == [
            ("pay", {"n": 1}, {"value": "pay"})
        ]
    assert store.finished("grace") == []
    assert store.finished("ada", "run-2") == []


def test_long_sources_and_results_are_not_kept(records: Records) -> None:
    store = ProgramStore(records, SystemClock())
    store.open("call-1", "run-1", "ada", "code", "seed", source="#" * (LONGEST_SOURCE + 1))
    store.finish("call-1", 1, "")
    store.open("call-2", "run-1", "ada", "code", "seed", source="1")
    store.finish("call-2", "x" * LONGEST_RESULT, "")
    store.open("call-3", "run-1", "ada", "code", "seed", source="1")
    store.finish("call-3", float("nan"), "")
    assert store.finished() == []


def test_the_store_of_an_earlier_release_gets_the_new_columns_and_keeps_its_rows(records: Records) -> None:
    with records.begin() as connection:
        connection.execute(text(OLD))
        connection.execute(text("INSERT INTO programs VALUES ('call-0', 'run-1', 'ada', 'code', 'seed-0', 9e9)"))
    store = ProgramStore(records, SystemClock())
    assert store.open("call-0", "run-1", "ada", "code", "other").seed == "seed-0"
    assert store.finished() == []
    store.open("call-1", "run-2", "ada", "code", "seed", source="1")
    store.finish("call-1", 1, "")
    assert [each.id for each in ProgramStore(records, SystemClock()).finished()] == ["call-1"]

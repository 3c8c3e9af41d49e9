"""All calls are recorded soon, and calls with effects before they run, even if the engine is killed."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.contract.result import ToolCall
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.dispatch.audit import ACTION_EXECUTED, AuditTrail
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.stores.call_journal import CallJournal
from engine.stores.call_rows import STARTED
from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog
from engine.stores.records import Records
from tests.dispatch.pipeline_fixture import open_pipeline

REPOSITORY = Path(__file__).resolve().parents[2]


@tool(side_effects=("filesystem_write",))
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(annotations=Annotations(destructive=True))
async def burn() -> str:
    """Burn."""
    return "ashes"


class Trail:
    """An audit trail on real stores."""

    def __init__(self, folder: Path) -> None:
        self.records = Records.open(f"sqlite:///{folder}/records.db")
        self.journal = CallJournal(self.records)
        self.events = EventLog(self.records, SystemClock())
        self.trail = AuditTrail(self.journal, self.events)
        self.events.subscribe("test")

    def parts(self) -> dict[str, Any]:
        return {"guards": (self.trail,), "recorder": self.trail}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Trail]:
    made = Trail(tmp_path)
    yield made
    made.records.close()


@pytest.mark.spec("CALL-13", "CALL-10")
async def test_every_call_becomes_a_row_and_every_executed_call_an_event(tmp_path: Path, kept: Trail) -> None:
    async with open_pipeline(tmp_path, [add, burn], **kept.parts()) as h:
        await h.pipeline.call(ToolCall("add", {"a": 1, "b": 2}, "one"), Turn(user="ada", agent="left"))
        await h.pipeline.call(ToolCall("add", {"a": "x"}, "two"), Turn())
        await h.pipeline.call(ToolCall("burn", {}, "three"), Turn())
        await kept.trail.flush()
    rows = {row["call_id"]: row for row in kept.journal.audit.recent()}
    assert {name: row["end"] for name, row in rows.items()} == {"one": "ok", "two": "refused", "three": "ok"}
    assert (rows["one"]["user"], rows["one"]["agent"], rows["one"]["risk"]) == ("ada", "left", "MEDIUM")
    assert json.loads(rows["one"]["arguments"]) == {"a": 1, "b": 2}
    assert (rows["two"]["reason"], rows["two"]["success"]) == ("invalid_arguments", False)
    events = [each.event for each in kept.events.fetch("test")]
    assert {event.payload["call_id"] for event in events} == {"one", "three"}
    assert {event.type for event in events} == {ACTION_EXECUTED}
    assert [row["call_id"] for row in kept.journal.audit.recent(tool="add", failed=True)] == ["two"]


@pytest.mark.spec("CALL-10")
async def test_a_reused_call_id_does_not_replace_an_earlier_call(tmp_path: Path, kept: Trail) -> None:
    async with open_pipeline(tmp_path, [add, burn], **kept.parts()) as h:
        for name, arguments in (("add", {"a": 1, "b": 2}), ("burn", {}), ("burn", {})):
            await h.pipeline.call(ToolCall(name, arguments, "call_0"), Turn())
        await kept.trail.flush()
    rows = sorted(kept.journal.audit.recent(), key=lambda row: row["ts"])
    assert [(row["tool"], row["end"], row["call_id"]) for row in rows] == [
        ("add", "ok", "call_0"),
        ("burn", "ok", "call_0"),
        ("burn", "ok", "call_0"),
    ]


@pytest.mark.spec("CALL-10", "CALL-13")
async def test_text_that_databases_reject_is_escaped(tmp_path: Path, kept: Trail) -> None:
    async with open_pipeline(tmp_path, [add], **kept.parts()) as h:
        await h.pipeline.call(ToolCall("add", {"a": "\ud800"}, "one\0"), Turn(user="\udfff"))
        await h.pipeline.call(ToolCall("no\ud800tool", {"\ud800": "\0"}, "\ud800"), Turn())
        await h.pipeline.call(ToolCall("add", {"a": 1, "b": 2}, "three"), Turn())
        await kept.trail.flush()
    rows = sorted(kept.journal.audit.recent(), key=lambda row: row["ts"])
    assert [(row["tool"], row["call_id"]) for row in rows] == [
        ("add", "one\\0"),
        ("no\\ud800tool", "\\ud800"),
        ("add", "three"),
    ]
    assert rows[0]["user"] == "\\udfff"
    assert len(kept.events.fetch("test")) == 1


@pytest.mark.spec("CALL-10")
async def test_only_the_row_that_cannot_be_written_is_dropped(
    tmp_path: Path, kept: Trail, caplog: pytest.LogCaptureFixture
) -> None:
    class Unwritable:
        def __repr__(self) -> str:
            raise ValueError("no form of it")

    async with open_pipeline(tmp_path, [add], **kept.parts()) as h:
        await h.pipeline.call(ToolCall("add", {"a": Unwritable(), "b": 2}, "bad"), Turn())
        await h.pipeline.call(ToolCall("add", {"a": 1, "b": 2}, "good"), Turn())
        await kept.trail.flush()
    assert [row["call_id"] for row in kept.journal.audit.recent()] == ["good"]
    assert "cannot be written and is dropped" in caplog.text


@pytest.mark.spec("CALL-10")
async def test_rows_of_many_calls_are_written_together_automatically(tmp_path: Path, kept: Trail) -> None:
    async with open_pipeline(tmp_path, [add], **kept.parts()) as h:
        for n in range(200):
            await h.call("add", a=n, b=n)
        deadline = time.monotonic() + 20
        while len(kept.journal.audit.recent(300)) < 200:
            assert time.monotonic() < deadline
            await asyncio.sleep(0)
    assert len({event.ts for event in kept.events.read(limit=300)}) < 20  # one time for each append


@pytest.mark.spec("CALL-10")
async def test_rows_that_cannot_be_written_are_kept_and_retried(tmp_path: Path, kept: Trail) -> None:
    kept.records.close()
    broken = CallJournal(Records.open(f"sqlite:///{tmp_path}/other.db"))
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("ALTER TABLE call_log RENAME TO gone")
    trail = AuditTrail(broken, kept.events)
    async with open_pipeline(tmp_path, [add], recorder=trail) as h:
        assert (await h.call("add", a=1, b=2)).success
        await trail.flush()
        with sqlite3.connect(tmp_path / "other.db") as database:
            database.execute("ALTER TABLE gone RENAME TO call_log")
        await trail.flush()
    assert len(broken.audit.recent()) == 1
    broken._records.close()


@pytest.mark.spec("CALL-10")
async def test_a_destructive_call_that_cannot_be_recorded_does_not_run(tmp_path: Path, kept: Trail) -> None:
    with sqlite3.connect(tmp_path / "records.db") as database:
        database.execute("DROP TABLE call_log")
    async with open_pipeline(tmp_path, [burn, add], guards=(kept.trail,)) as h:
        assert not (await h.call("burn")).success
        assert (await h.call("add", a=1, b=1)).success


KILLED = """
import asyncio, sys
from engine import Engine
from engine.contract.spec import Annotations
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

@tool(annotations=Annotations(destructive=True))
async def burn() -> str:
    "Burn."
    print("burning", flush=True)
    await asyncio.Event().wait()

async def main():
    async with Engine.open(sys.argv[1], sources=[StaticSource("mine", [burn])], packs=False, environ={}) as engine:
        await engine.call("burn", {}, call_id="the-call")

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.spec("CALL-10")
def test_a_destructive_call_is_on_record_even_if_its_engine_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "burning\n"
        victim.send_signal(signal.SIGKILL)
    with sqlite3.connect(tmp_path / "records.db") as database:
        assert database.execute("SELECT call_id, tool, end FROM call_log").fetchall() == [("the-call", "burn", STARTED)]
    shown = subprocess.run(
        [sys.executable, "-m", "engine.interfaces.cli.main", "--home", str(tmp_path), "audit"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "no result recorded" in " ".join(shown.stdout.split())


@pytest.mark.spec("CALL-13")
async def test_closing_an_engine_writes_all_waiting_rows(tmp_path: Path) -> None:
    sources = [StaticSource("mine", [add])]
    async with Engine.open(tmp_path, sources=sources, packs=False, environ={}) as engine:
        await engine.call("add", {"a": 1, "b": 2}, call_id="last")
    with sqlite3.connect(tmp_path / "records.db") as database:
        assert database.execute("SELECT call_id, end FROM call_log").fetchall() == [("last", "ok")]
    with sqlite3.connect(tmp_path / "events.db") as database:
        ((payload,),) = database.execute("SELECT payload FROM events").fetchall()
    assert json.loads(payload)["call_id"] == "last"

"""Data that tools add to the audit of their calls is kept on success and failure, and limited to small JSON."""

import asyncio
import json
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from sqlalchemy import text

from engine import Engine
from engine.contract.context import CallContext
from engine.contract.failure import ToolFailure
from engine.contract.guard import GuardRequest
from engine.contract.result import ToolCall
from engine.contract.turn import Turn
from engine.dispatch.audit import ACTION_EXECUTED
from engine.dispatch.audit_data import MOST_CHARACTERS, bounded
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.stores.call_journal import CallJournal
from engine.stores.call_rows import row_of_start
from engine.stores.records import Records
from tests.dispatch.pipeline_fixture import open_pipeline
from tests.interfaces.cli import here

pytestmark = pytest.mark.spec("CALL-5")


@tool()
async def count(ctx: CallContext, rows: int) -> int:
    """Count rows."""
    ctx.audit["rows"] = rows
    ctx.audit["query"] = {"table": "t", "limits": [1, 2.5, None, True]}
    if rows < 0:
        raise ToolFailure("There are no rows.")
    return rows


@tool()
def count_in_a_thread(ctx: CallContext, rows: int) -> int:
    """Count rows while blocking the thread."""
    ctx.audit["rows"] = rows
    return rows


async def test_data_added_by_a_tool_is_in_the_audit_of_successes_and_failures(tmp_path):
    async with open_pipeline(tmp_path, [count, count_in_a_thread]) as h:
        done = await h.call("count", rows=3)
        assert done.audit.data == {"rows": 3, "query": {"table": "t", "limits": [1, 2.5, None, True]}}
        assert (await h.call("count", rows=-1)).audit.data["rows"] == -1
        assert (await h.call("count_in_a_thread", rows=4)).audit.data == {"rows": 4}
        assert (await h.call("count", rows="x")).audit.data == {}  # it never ran


async def test_audit_data_is_in_the_event_of_the_call(tmp_path):
    async with Engine.open(tmp_path, sources=[StaticSource("mine", [count])], packs=False, environ={}) as engine:
        await engine.call("count", {"rows": 3})
        await engine.audit()
        payloads = [each.payload for each in engine.events.read() if each.type == ACTION_EXECUTED]
    assert [each["data"]["rows"] for each in payloads] == [3]


async def test_audit_data_is_stored_with_the_recorded_call(tmp_path):
    async with Engine.open(tmp_path, sources=[StaticSource("mine", [count])], packs=False, environ={}) as engine:
        await engine.call("count", {"rows": 3})
        await engine.call("count", {"rows": "x"})
        assert [each["data"].get("rows") for each in await engine.audit()] == [None, 3]


def test_a_journal_of_an_earlier_release_can_store_audit_data_after_the_upgrade(tmp_path):
    url = f"sqlite:///{tmp_path}/records.db"
    row = row_of_start(GuardRequest(ToolCall("count", {}), "first", "2026-01-01T00:00:00Z", count.spec, Turn()), "LOW")
    with closing(Records.open(url)) as records:
        CallJournal(records).write([row])
        with records.begin() as connection:
            connection.execute(text("ALTER TABLE call_log DROP COLUMN data"))
    with closing(Records.open(url)) as records:
        log = CallJournal(records)
        assert [each["data"] for each in log.audit.recent()] == [{}]
        log.write([row | {"call_id": "next", "data": '{"rows": 3}'}])
        assert [each["data"] for each in log.audit.recent()] == [{"rows": 3}, {}]


async def test_knackbox_audit_shows_audit_data_escaped_and_truncated_and_complete_as_json(tmp_path, capfd):
    @tool()
    async def note(ctx: CallContext) -> None:
        """Note something long and unfit for a terminal."""
        ctx.audit.update(escape="\x1b[2J\u202e", long="x" * 1_000)

    async with Engine.open(tmp_path, sources=[StaticSource("mine", [note])], packs=False, environ={}) as engine:
        await engine.call("note", {})
    shown = await asyncio.to_thread(here, capfd, "--home", str(tmp_path), "audit")
    assert '"escape"' in shown.out
    assert "\x1b" not in shown.out
    assert "\u202e" not in shown.out
    assert "x" * 100 in shown.out
    assert "x" * 300 not in shown.out
    as_json = await asyncio.to_thread(here, capfd, "--home", str(tmp_path), "audit", "--json")
    (call,) = as_json.last["calls"]
    assert call["data"] == {"escape": "\x1b[2J\u202e", "long": "x" * 1_000}


class Odd:
    def __repr__(self) -> str:
        return "odd"


LEAVES = (
    some.none() | some.booleans() | some.integers() | some.floats() | some.text() | some.binary() | some.builds(Odd)
)
ANYTHING = some.recursive(
    LEAVES, lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner), max_leaves=20
)


@pytest.mark.slow
@given(data=some.dictionaries(some.text(), ANYTHING, max_size=5))
def test_any_audit_data_is_reduced_to_small_json(data: dict[str, Any]) -> None:
    assert len(json.dumps(bounded(data), allow_nan=False)) < 20 * MOST_CHARACTERS


@pytest.mark.parametrize(
    "data",
    [
        {"long": "x" * 1_000_000},
        {"many": list(range(1_000_000))},
        {str(number): number for number in range(100_000)},
        {"half": "\ud800"},
        {"big": 10**10_000},
    ],
)
def test_excess_audit_data_is_dropped_and_marked_as_truncated(data: dict[str, Any]) -> None:
    kept = bounded(data)
    assert len(json.dumps(kept)) < 2 * MOST_CHARACTERS
    assert kept.get("truncated") is True or data.keys() <= {"half", "big"}


def test_recursive_and_unprintable_audit_data_do_not_fail_the_call() -> None:
    looped: dict[str, Any] = {"a": 1}
    looped["self"] = looped
    assert bounded(looped)["truncated"] is True

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert bounded({"b": Broken()}) == {"truncated": True}

"""`scratchpad` keeps short notes per user and agent, and they survive a restart."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builtin_tools import scratchpad as module
from builtin_tools.scratchpad import MAX_KEY, MAX_VALUE, Scratchpad, scratchpad
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.turn import Turn
from engine.stores.clock import SystemClock
from engine.stores.records import Records


def do(ctx: CallContext, action: str, **arguments: Any) -> Produced:
    produced = scratchpad.run_blocking(ctx, {"action": action, **arguments})
    assert isinstance(produced, Produced)
    return produced


@pytest.mark.spec("TOOL-6")
def test_a_note_is_set_read_listed_and_cleared(ctx: CallContext) -> None:
    assert do(ctx, "set", key="plan", value="first this").side_effects == ("noted:plan",)
    assert do(ctx, "get", key="plan").message == "first this"
    assert do(ctx, "set", key="plan", value="then that").value["replaced"] is True
    listed = do(ctx, "list")
    assert [(note["key"], note["characters"]) for note in listed.value] == [("plan", 9)]
    assert do(ctx, "clear", key="plan").value == {"removed": 1}
    assert do(ctx, "list").message == "The scratchpad is empty."


def test_notes_survive_a_restart(ctx: CallContext, tmp_path: Path) -> None:
    do(ctx, "set", key="a", value="kept")
    ctx.need(Records).close()
    again = Records.open(f"sqlite:///{tmp_path / 'records.db'}")
    try:
        assert Scratchpad.open(again, SystemClock()).get(ctx.turn, "a") == "kept"
    finally:
        again.close()


@pytest.mark.parametrize("other", [Turn(user="bob", agent="main"), Turn(user="ada", agent="helper")])
def test_other_users_and_agents_cannot_see_or_clear_a_note(ctx: CallContext, other: Turn) -> None:
    do(ctx, "set", key="a", value="mine")
    elsewhere = replace(ctx, turn=other)
    assert do(elsewhere, "list").value == []
    assert do(elsewhere, "clear").value == {"removed": 0}
    with pytest.raises(ToolFailure, match="no note 'a'"):
        do(elsewhere, "get", key="a")
    assert do(ctx, "get", key="a").message == "mine"


def test_the_failure_for_a_missing_note_names_the_existing_ones(ctx: CallContext) -> None:
    do(ctx, "set", key="results", value="1")
    with pytest.raises(ToolFailure, match="Existing notes: results"):
        do(ctx, "get", key="result")


def test_clearing_without_a_key_removes_all_notes(ctx: CallContext) -> None:
    for key in "abc":
        do(ctx, "set", key=key, value="x")
    assert do(ctx, "clear").side_effects == ("cleared:*",)
    assert do(ctx, "list").value == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "get"},
        {"action": "set", "key": "a"},
        {"action": "set", "value": "a"},
        {"action": "set", "key": "", "value": "a"},
        {"action": "set", "key": "k" * (MAX_KEY + 1), "value": "a"},
        {"action": "set", "key": "k", "value": "v" * (MAX_VALUE + 1)},
        {"action": "burn"},
    ],
)
@pytest.mark.spec("CALL-3")
def test_invalid_arguments_change_nothing(ctx: CallContext, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolFailure) as caught:
        scratchpad.run_blocking(ctx, arguments)
    assert caught.value.reason == "invalid_arguments"
    assert do(ctx, "list").value == []


def test_a_full_scratchpad_accepts_only_replacements(ctx: CallContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NOTES", 2)
    for key in "ab":
        do(ctx, "set", key=key, value="x")
    with pytest.raises(ToolFailure, match="already holds 2 notes"):
        do(ctx, "set", key="c", value="x")
    assert do(ctx, "set", key="a", value="new").value["replaced"] is True
    assert [note["key"] for note in do(ctx, "list").value] == ["a", "b"]

"""Pipelines suggested from recurring calls in the log, and the commands for pipelines."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from acquired_skills.composed.pipeline import read_pipeline
from acquired_skills.composed.suggest import suggest_pipelines
from engine.contract.turn import Turn
from engine.interfaces.cli.main import app
from tests.skills.composed.parts import TOOLS, opened

pytestmark = pytest.mark.spec("SKILL-16")
SPECS = {tool.spec.name: tool.spec for tool in TOOLS}


def row(number: int, tool: str, arguments: Any, minute: int = 0, **more: Any) -> dict[str, Any]:
    """Return a row of the call log, one second after the previous one."""
    known = {"id": number, "call_id": f"c{number}", "user": "ann", "agent": "main", "success": True, "side_effects": []}
    at = f"2026-01-02T03:{minute:02}:{number % 60:02}.000+00:00"
    return {**known, "ts": at, "tool": tool, "arguments": json.dumps(arguments), **more}


def repeated(times: int = 3) -> list[dict[str, Any]]:
    rows = []
    for n in range(times):
        rows.append(row(4 * n, "read_page", {"url": f"u{n}"}, side_effects=[f"saved:page{n}.html"]))
        rows.append(row(4 * n + 1, "send_note", {"to": "bob", "text": f"page{n}.html"}))
        rows.append(row(4 * n + 2, "burn_notes", {"count": n, "url": f"u{n}"}))
        rows.append(row(4 * n + 3, "manage_skills", {"action": "list"}))  # cannot be a step, so it ends a sequence
    return rows


def test_a_recurring_sequence_becomes_a_pipeline_with_guessed_mappings() -> None:
    (found,) = suggest_pipelines(repeated(), SPECS)
    assert (found.tools, found.times) == (("read_page", "send_note", "burn_notes"), 3)
    read, send, burn = found.pipeline["steps"]
    assert read["inputs"] == {"url": {"from": "/arguments/url"}}
    assert send["inputs"] == {"to": "bob", "text": {"from": "/read_page_1/FILL_IN"}}
    assert burn["inputs"] == {"count": {"from": "/arguments/count"}, "url": {"from": "/arguments/url"}}
    assert read_pipeline(json.dumps(found.pipeline))
    assert "created by step 1" in found.notes[0]


def test_rare_failed_separate_or_foreign_calls_give_no_suggestion() -> None:
    assert suggest_pipelines(repeated(2), SPECS) == []
    for spoiled in (
        [each | {"success": each["tool"] != "send_note"} for each in repeated()],
        [each | {"user": f"user{index % 2}"} for index, each in enumerate(repeated())],
        [each | {"ts": f"2026-01-02T{index:02}:00:00.000+00:00"} for index, each in enumerate(repeated())],
        [each | {"arguments": each["arguments"][:9]} for each in repeated()],
        [each | {"call_id": f"outer/{index}"} for index, each in enumerate(repeated())],
    ):
        assert all(len(each.tools) < 3 for each in suggest_pipelines(spoiled, SPECS))


@pytest.mark.asyncio
async def test_an_agent_only_sees_sequences_of_its_own_user(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        ann = Turn(user="ann", permission="user")
        for n in range(3):
            await engine.call("read_page", {"url": f"u{n}"}, ann)
            await engine.call("scratchpad", {"action": "set", "key": f"k{n}", "value": "v"}, ann)
        await engine.audit()
        told = await engine.call("manage_skills", {"action": "suggest"}, ann)
        assert told.success, told.error
        assert "read_page" in str(told.message)
        other = await engine.call("manage_skills", {"action": "suggest"}, Turn(user="bob", permission="user"))
        assert other.output == []


def test_the_commands_compose_and_suggest(tmp_path: Path) -> None:
    call = {"name": "now", "call": "system_utility", "inputs": {"action": "health"}}
    case = {"steps": {"now": {"status": "t"}}, "asked": {"now": {"action": "health"}}, "expect": "t"}
    file = tmp_path / "how_it_is.json"

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["--home", str(tmp_path / "home"), *words])

    described = {"name": "how_it_is", "description": "Tells how the engine is now.", "cases": [case]}
    file.write_text(json.dumps({**described, "pipeline": {"steps": [call], "output": {"from": "/later/status"}}}))
    refused = run("skills", "compose", str(file), "--json")
    assert refused.exit_code == 1, refused.output
    assert "`later` is not available there" in json.loads(refused.stdout)["problems"][0]["text"]
    file.write_text(json.dumps({**described, "pipeline": {"steps": [call], "output": {"from": "/now/status"}}}))
    done = run("skills", "compose", str(file))
    assert "how_it_is version 1 is admitted: 1 case passed." in done.stdout, done.output
    assert "scripts/how_it_is.json" in run("skills", "show", "how_it_is").stdout
    assert "no sequence of calls" in run("skills", "suggest").output
    file.write_text('{"name": 1}')
    assert run("skills", "compose", str(file)).exit_code != 0

"""What a run teaches is used by later runs, also in another process, and belongs to its user alone."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.app.conversation import open_conversation
from engine.app.settings import ModelSettings, Settings
from engine.contract.turn import Turn
from engine.stores.run_journal import transcripts_contain
from tests.agent.scripted_model import ScriptedModel, calls, says, serving
from tests.skills.parts import NoSandbox

MISTAKE = {"mistake": "Read the CSV export of the bank as UTF-8.", "fix": "Read the bank's CSV export as cp1252."}
DEADLINE_S = 100.0


def prompt_of(request: dict[str, Any]) -> str:
    return "\n".join(str(message["content"]) for message in request["messages"])


async def chat_in_another_process(home: Path, model: ScriptedModel, message: str) -> str:
    names = {"KNACKBOX_MODEL_NAME": "scripted", "KNACKBOX_MODEL_BASE_URL": model.base_url}
    environ = {**os.environ, **names, "KNACKBOX_HOME": str(home)}
    command = [sys.executable, "-m", "engine.interfaces.cli.main", "chat", message]
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=-1, stderr=-1)
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.slow
@pytest.mark.spec("MEM-7", "TOOL-5")
async def test_a_mistake_on_monday_is_a_lesson_on_tuesday_in_another_process(tmp_path: Path) -> None:
    script = [calls(("learn_skill", MISTAKE)), says("Learned."), says("I read it as cp1252.")]
    async with serving(*script) as model:
        settings = Settings(model=ModelSettings(name="scripted", base_url=model.base_url))
        async with Engine.open(tmp_path, settings=settings, sandbox=NoSandbox()) as engine:
            async with open_conversation(engine) as monday:
                await monday.run("That was wrong: the export of my bank is not UTF-8.")
            listed = await engine.call("list_lessons", {"scope": "today"})
        answer = await chat_in_another_process(tmp_path, model, "Sum up the CSV export of my bank")
    assert listed.output[0]["fix"] == MISTAKE["fix"]
    assert MISTAKE["fix"] not in prompt_of(model.requests[0])
    assert MISTAKE["fix"] in prompt_of(model.requests[-1])
    assert "cp1252" in answer


@pytest.mark.slow
@pytest.mark.spec("MEM-8", "TOOL-6")
async def test_a_profile_fact_is_in_the_prompt_of_its_user_and_of_nobody_else(tmp_path: Path) -> None:
    update = calls(("update_profile", {"key": "preferred_units", "value": "metric"}))
    async with serving(update, says("Noted."), says("5 km"), says("3 miles")) as model:
        settings = Settings(model=ModelSettings(name="scripted", base_url=model.base_url))
        async with Engine.open(tmp_path, settings=settings, sandbox=NoSandbox()) as engine:
            async with open_conversation(engine, turn=Turn(user="ada")) as talk:
                await talk.run("I prefer metric units")
            async with open_conversation(engine, turn=Turn(user="ada")) as talk:
                told = await talk.run("How far is it?")
            async with open_conversation(engine, turn=Turn(user="bob")) as talk:
                await talk.run("How far is it?")
    first, _, ada, bob = model.requests
    assert told.answer == "5 km"
    assert "preferred_units: metric" in str(ada["messages"][0]["content"])
    assert "preferred_units" not in prompt_of(first)
    assert "preferred_units: metric" not in prompt_of(bob)


@pytest.mark.slow
@pytest.mark.spec("MEM-6", "LOOP-5")
async def test_the_transcripts_of_runs_are_named_if_they_contain_what_was_forgotten(tmp_path: Path) -> None:
    secret = 'The code of the locker is "4711".'
    insert = {"action": "insert_fact", "text": secret}
    # Long arguments, so that SQLite splits the row.
    script = [calls(("knowledge_base", insert), text="x" * 3950), says("Noted.")]
    async with serving(*script) as model:
        settings = Settings(model=ModelSettings(name="scripted", base_url=model.base_url))
        async with Engine.open(tmp_path, settings=settings, sandbox=NoSandbox()) as engine:
            async with open_conversation(engine) as talk:
                report = await talk.run("Remember the code.")
            assert report.calls[0].result.success, report.calls[0].result.error
            forget = {"action": "forget", "query": secret}
            preview = await engine.call("knowledge_base", forget)
            forgotten = await engine.call("knowledge_base", forget | {"confirm": preview.output["confirm"]})
            other = transcripts_contain(tmp_path / "runs.db", ["The code of the door"])
    assert forgotten.success, forgotten.error
    assert "runs.db" in forgotten.text
    assert not other

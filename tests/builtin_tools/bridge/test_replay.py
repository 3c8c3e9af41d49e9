"""A program whose engine is killed at any durable write runs again: it gets the same answers, and repeats no effect."""

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.agent.budget import Finish
from engine.agent.conversation import Conversation
from engine.app.conversation import open_conversation, runs_of
from engine.app.people import People
from engine.app.settings import Settings
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from tests.agent.run_kills import Victims, last_request, victims
from tests.agent.run_script import Script
from tests.agent.run_tools import Approving, Effects, source
from tests.agent.run_victims import MESSAGE
from tests.agent.scripted_model import serving

# What it draws and reads from the clock is an argument, so a program that ran again with other values would diverge.
PROGRAM = """
import datetime, random, time, uuid
from knackbox import ToolError, tools

seen = []
def once(name, n):
    try:
        return tools[name](n=n)
    except ToolError as failed:
        if not failed.may_have_happened:
            raise
        if tools.happened(what=f"{name} {n}") == "no":
            return tools[name](n=n, **({"attempt": 2} if name == "pay" else {}))  # a key is used once
        return {"send": "sent", "drop": "dropped", "pay": "paid"}[name] + f" {n}"

for n in range(3):
    drawn = f"{random.random()} {uuid.uuid4()} {time.time()} {datetime.datetime.now()}"
    seen += [tools.look(n=n), tools.happened(what=drawn)]
    seen += [once(name, n) for name in ("pay", "send", "drop")]
seen
"""
EFFECTS = sorted(f"{name} {n}" for name in ("pay", "send", "drop") for n in range(3))


def rounds() -> list[Any]:
    return [[("execute", {"language": "python", "code": PROGRAM})]]


def said(body: dict[str, Any]) -> list[str]:
    """Return what the program returned, without the line about its calls, which counts repeated ones."""
    texts = [each["content"] for each in body["messages"] if each["role"] == "tool"]
    return [text.partition("\nCalls:")[0] for text in texts]


async def kill_and_continue(each: Victims, home: Path, number: int, moment: str, expected: list[str]) -> bool:
    """Kill the run at a write and continue it; return False if it has fewer writes."""
    async with serving(Script(rounds())) as model:
        killed = await each.work(home, model.base_url, number, moment, packs=True)
        if killed["finish"] != "killed":
            return False
        report = await each.work(home, model.base_url, packs=True)
        where = f"killed {moment} write {number}"
        assert report["finish"] in ("answer", "ended"), (where, report)
        assert sorted(Effects(home).all()) == EFFECTS, where
        assert said(last_request(model)) == expected, where
    shutil.rmtree(home)
    return True


@pytest.mark.slow
@pytest.mark.spec("CODE-4")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.soak), 9])
async def test_a_program_killed_at_a_durable_write_runs_again_without_repeating_effects(
    tmp_path: Path, every: int
) -> None:
    kills = 0
    async with victims() as each:
        async with serving(Script(rounds())) as model:
            report = await each.work(tmp_path / "whole", model.base_url, packs=True)
            assert (report["finish"], report["answer"]) == ("answer", "All done.")
            expected = said(last_request(model))
        assert json.loads(expected[0])[2] == "paid 0"
        assert sorted(Effects(tmp_path / "whole").all()) == EFFECTS
        for number in itertools.count(1, int(os.environ.get("SOAK_EVERY", every))):
            for moment in ("before", "after"):
                if not await kill_and_continue(each, tmp_path / f"{moment}-{number}", number, moment, expected):
                    print(f"{report['writes']} writes, {kills} kills")
                    assert kills >= report["writes"] // every
                    return
                kills += 1


WAITING = """
from knackbox import tools
seen = [tools.send(n=1)]
seen.append(tools.drop(n=1))
seen.append(tools.send(n=2))
seen
"""


class Once:
    """Approves the program itself, and nothing else: nobody answers."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        if request.tool.name == "execute":
            return ApprovalAnswer(True, request.digest)
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


@asynccontextmanager
async def talking(home: Path, model_url: str, approver: Any) -> AsyncIterator[tuple[Engine, Conversation]]:
    values = {
        "model": {"name": "scripted", "base_url": model_url, "timeout_s": 20.0},
        "policy": {"approval": "destructive", "approval_expires_s": 0.2},
    }
    settings, people, sources = Settings.model_validate(values), People(approver=approver), [source(Effects(home))]
    async with (
        Engine.open(home, settings=settings, sources=sources, people=people, environ={}) as engine,
        open_conversation(engine) as conversation,
    ):
        yield engine, conversation


@pytest.mark.slow
@pytest.mark.spec("CODE-3", "CODE-4")
async def test_a_program_waits_for_an_approval_and_goes_on_in_another_engine(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with serving(Script([[("execute", {"language": "python", "code": WAITING})]])) as model:
        async with talking(home, model.base_url, Once()) as (_, conversation):
            report = await conversation.run(MESSAGE)
        assert report.finish is Finish.APPROVAL, report
        assert Effects(home).all() == ["send 1"]
        async with talking(home, model.base_url, Approving()) as (engine, conversation):
            again = await conversation.resume(await runs_of(engine).open(report.run))
        assert (again.finish, again.answer) == (Finish.ANSWER, "All done.")
        assert json.loads(said(last_request(model))[0]) == ["sent 1", "dropped 1", "sent 2"]
    assert Effects(home).all() == ["send 1", "drop 1", "send 2"]

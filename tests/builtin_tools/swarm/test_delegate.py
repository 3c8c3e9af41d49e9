"""Tasks are delegated to child runs, which have at most the rights and the budget of their parent (SWARM-1, SWARM-2)."""

import asyncio
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.agent.budget import Budget, Finish
from engine.app.background import background
from engine.app.conversation import open_conversation
from engine.contract.agent import AgentSpec
from engine.contract.allowed import Allowed
from engine.contract.turn import Turn
from engine.stores.child_workspace import remove_forgotten
from tests.agent.scripted_model import ScriptedModel, calls, hangs, says, serving
from tests.builtin_tools.swarm.swarm_home import Tasks, last_result, opened, task_of
from tests.eventually import eventually

TOOL = "delegate_to_swarm"


def delegating(*arguments: dict[str, Any]) -> list[list[tuple[str, Any]]]:
    return [[(TOOL, each)] for each in arguments]


async def talk(engine: Engine, message: str, **options: Any) -> Any:
    async with open_conversation(engine, **options) as conversation:
        return await conversation.run(message)


def requests_of(model: ScriptedModel, task: str) -> list[dict[str, Any]]:
    return [body for body in model.requests if task_of(body) == task]


def offered(body: dict[str, Any]) -> set[str]:
    return {each["function"]["name"] for each in body.get("tools", [])}


@pytest.mark.spec("SWARM-1", "SWARM-2", "TOOL-9")
async def test_the_answers_of_all_tasks_are_the_result_of_the_call(tmp_path: Path) -> None:
    tasks = Tasks(plan=delegating({"tasks": ["look 1", "look 2"]}), look=[[("look", {"n": 1})]])
    async with serving(tasks) as model, opened(tmp_path, model.base_url) as engine:
        report = await talk(engine, "plan")
        assert report.finish is Finish.ANSWER
        told = last_result(requests_of(model, "plan")[-1])
        assert "2 of 2 tasks have ended" in told
        assert "[1] answer: done: look 1" in told
        assert "[2] answer: done: look 2" in told
        assert engine.services.child_runs.unended() == []
        assert [row.finish for row in await asyncio.to_thread(engine.runs.recent)] == ["answer"] * 3


@pytest.mark.spec("SWARM-2")
async def test_the_first_answer_can_be_awaited_while_the_others_work_and_are_then_cancelled(tmp_path: Path) -> None:
    def plan(body: dict[str, Any]) -> Any:
        told = last_result(body)
        if not told:
            return calls((TOOL, {"tasks": ["quick", "slow"], "wait": "first"}))
        swarm = re.findall("[0-9a-f]{12}", told)[0]
        if "[2] cancelled" in told:
            return says("Finished.")
        if "Cancelled" in told:
            return calls((TOOL, {"action": "await", "swarm": swarm}))
        return calls((TOOL, {"action": "cancel", "swarm": swarm}))

    async with serving(Tasks(plan=plan, slow=lambda _: hangs())) as model, opened(tmp_path, model.base_url) as engine:
        report = await talk(engine, "plan")
        told = last_result(requests_of(model, "plan")[-1])
        assert report.answer == "Finished."
        assert "[1] answer: done: quick" in told
        assert "[2] cancelled" in told
        assert engine.services.child_runs.unended() == []


@pytest.mark.spec("SWARM-1")
async def test_a_child_has_no_tool_that_its_parent_may_not_call(tmp_path: Path) -> None:
    tasks = Tasks(plan=delegating({"tasks": [{"task": "look", "tools": ["look", "send"]}, "see"]}))
    turn = Turn(allowed=Allowed.of(["look", TOOL]))
    async with serving(tasks) as model, opened(tmp_path, model.base_url) as engine:
        await talk(engine, "plan", turn=turn)
        assert offered(requests_of(model, "look")[0]) == {"look"}
        assert offered(requests_of(model, "see")[0]) == {"look", TOOL}


@pytest.mark.spec("SWARM-1")
async def test_a_child_does_not_get_capabilities_that_its_parent_does_not_hold(tmp_path: Path) -> None:
    tasks = Tasks(plan=delegating({"tasks": [{"task": "look", "agent": "keeper"}]}))
    async with serving(tasks) as model, opened(tmp_path, model.base_url) as engine:
        await engine.registries.register_agent(AgentSpec("keeper", caps=("keys",), allowed_tools=("look",)))
        await talk(engine, "plan")
        assert offered(requests_of(model, "look")[0]) == {"look"}
        child = (await asyncio.to_thread(engine.services.child_runs.swarm, await only_swarm(engine)))[0]
        assert child.turn.most_caps == frozenset()
        assert (await engine._turns.create(child.turn)).caps == frozenset()


@pytest.mark.spec("SWARM-1")
async def test_runs_at_the_greatest_depth_cannot_delegate(tmp_path: Path) -> None:
    tasks = Tasks(plan=delegating({"tasks": ["middle"]}), middle=delegating({"tasks": ["leaf"]}))
    async with serving(tasks) as model, opened(tmp_path, model.base_url, packs={"swarm": {"slots": 1}}) as engine:
        report = await talk(engine, "plan")
        assert report.finish is Finish.ANSWER
        assert TOOL in offered(requests_of(model, "middle")[0])
        assert TOOL not in offered(requests_of(model, "leaf")[0])


@pytest.mark.spec("SWARM-1")
async def test_children_use_up_the_tokens_of_their_parent(tmp_path: Path) -> None:
    tasks = Tasks(
        plan=delegating({"tasks": [{"task": "look", "max_tokens": 5_000}], "wait": "none"}), look=lambda _: hangs()
    )
    async with serving(tasks) as model, opened(tmp_path, model.base_url) as engine:
        report = await talk(engine, "plan", budget=Budget(tokens=10_000))
        assert report.tokens == 5_000 + 2 * 10
        child = (await asyncio.to_thread(engine.services.child_runs.swarm, await only_swarm(engine)))[0]
        assert child.limits.tokens == 5_000
        assert child.limits.turns == 39  # what was left of the parent's


@pytest.mark.spec("SWARM-1")
async def test_tasks_that_need_more_tokens_than_are_left_are_refused(tmp_path: Path) -> None:
    tasks = Tasks(plan=delegating({"tasks": [{"task": "look", "max_tokens": 10_001}]}))
    async with serving(tasks) as model, opened(tmp_path, model.base_url) as engine:
        await talk(engine, "plan", budget=Budget(tokens=10_000))
        assert "too few" in last_result(requests_of(model, "plan")[-1])
        assert requests_of(model, "look") == []


@pytest.mark.spec("SWARM-1")
async def test_two_calls_in_one_response_share_what_is_left(tmp_path: Path) -> None:
    asked = [{"task": "look", "max_tokens": 6_000}]
    both = [(TOOL, {"tasks": asked}), (TOOL, {"tasks": asked, "key": "again"})]
    async with serving(Tasks(plan=[both])) as model, opened(tmp_path, model.base_url) as engine:
        await talk(engine, "plan", budget=Budget(tokens=10_000))
        assert len(requests_of(model, "look")) == 1


@pytest.mark.spec("SWARM-2")
async def test_the_same_call_finds_the_runs_that_it_has_started_before(tmp_path: Path) -> None:
    same = {"tasks": ["look"]}
    tasks = Tasks(plan=delegating(same, same, {**same, "key": "again"}, {"tasks": ["other"], "key": "again"}))
    async with serving(tasks) as model, opened(tmp_path, model.base_url) as engine:
        await talk(engine, "plan")
        assert len(requests_of(model, "look")) == 2
        told = requests_of(model, "plan")
        assert "have been delegated before" in last_result(told[2])
        assert "belongs to other tasks" in last_result(told[4])


@pytest.mark.spec("SWARM-1", "SWARM-2")
async def test_each_child_has_a_workspace_of_its_own_whose_files_can_be_copied(tmp_path: Path) -> None:
    def write(text: str) -> list[list[tuple[str, Any]]]:
        return [[("file_system", {"action": "write", "path": "note.txt", "content": text})]]

    tasks = Tasks(
        plan=[*write("mine"), *delegating({"tasks": ["one", "two"], "workspace": "copy", "files": True})],
        one=write("first"),
        two=[[("file_system", {"action": "read", "path": "note.txt"})]],
    )
    async with serving(tasks) as model, opened(tmp_path, model.base_url) as engine:
        await talk(engine, "plan")
        swarm = await only_swarm(engine)
        folder = tmp_path / "workspace"
        assert (folder / "note.txt").read_text() == "mine"
        assert (folder / "swarm" / f"{swarm}-1" / "note.txt").read_text() == "first"
        assert "mine" in last_result(requests_of(model, "two")[-1])


@pytest.mark.spec("SWARM-2")
async def test_cancelling_the_parent_cancels_the_whole_tree(tmp_path: Path) -> None:
    tasks = Tasks(
        plan=delegating({"tasks": ["middle", "slow 1"]}),
        middle=delegating({"tasks": ["slow 2", "slow 3"]}),
        slow=lambda _: hangs(),
    )
    settings = {"packs": {"swarm": {"slots": 1}}}  # so that some are queued
    async with serving(tasks) as model, opened(tmp_path, model.base_url, **settings) as engine:
        working = asyncio.create_task(talk(engine, "plan"))
        await eventually(lambda: requests_of(model, "slow 2"))
        rows = await asyncio.to_thread(engine.runs.recent)
        parent = next(row.id for row in rows if row.message == "plan")
        await asyncio.to_thread(engine.runs.ask_to_cancel, parent)
        assert (await working).finish is Finish.CANCELLED
        await eventually(lambda: asyncio.to_thread(lambda: not engine.services.child_runs.unended()))
        rows = await asyncio.to_thread(engine.runs.recent)
        assert {row.finish for row in rows} == {"cancelled"}
        assert requests_of(model, "slow 1") == requests_of(model, "slow 3") == []


@pytest.mark.spec("SWARM-2")
async def test_partial_results_of_unfinished_tasks_can_be_read(tmp_path: Path) -> None:
    def slow(body: dict[str, Any]) -> Any:
        return hangs() if last_result(body) else calls(("look", {"n": 1}), text="I have begun.")

    async with serving(Tasks(slow=slow)) as model, opened(tmp_path, model.base_url) as engine:
        started = await engine.call(TOOL, {"tasks": ["slow"], "wait": "none"})
        assert started.success, started.error
        await eventually(lambda: len(requests_of(model, "slow")) == 2)
        found = await engine.call(TOOL, {"action": "results", "swarm": started.output["swarm"]})
        assert "started: I have begun." in found.text
        latest = await engine.call(TOOL, {"action": "status"})
        assert started.output["swarm"] in latest.text


@pytest.mark.spec("SWARM-2")
async def test_nobody_else_can_read_or_cancel_a_swarm(tmp_path: Path) -> None:
    async with serving(Tasks()) as model, opened(tmp_path, model.base_url) as engine:
        started = await engine.call(TOOL, {"tasks": ["look"]}, Turn(user="ada"))
        for action in ("status", "await", "results", "cancel"):
            found = await engine.call(TOOL, {"action": action, "swarm": started.output["swarm"]}, Turn(user="bob"))
            assert "There is no swarm" in found.error


@pytest.mark.spec("SWARM-1")
async def test_without_a_model_the_tool_is_not_offered(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, environ={}) as engine:
        assert TOOL not in {spec.name for spec in await engine.get_active_tool_definitions()}


async def only_swarm(engine: Engine) -> str:
    found = await asyncio.to_thread(engine.services.child_runs.recent, "local", "main")
    assert len(found) == 1
    return found[0]


@pytest.mark.spec("SWARM-2")
async def test_answers_that_nobody_awaits_reach_the_parent_at_its_next_turn(tmp_path: Path) -> None:
    def plan(body: dict[str, Any]) -> Any:
        if "has ended (answer): done: late" in str(body["messages"]):
            return says("I have it.")
        if last_result(body):
            return calls(("look", {"n": len(body["messages"])}))
        return calls((TOOL, {"tasks": ["late"], "wait": "none"}))

    async with serving(Tasks(plan=plan)) as model, opened(tmp_path, model.base_url) as engine:
        report = await talk(engine, "plan", budget=Budget(turns=2000, tool_calls=2000))
        assert report.answer == "I have it."


@pytest.mark.spec("SWARM-2")
async def test_answers_after_the_end_of_the_parent_are_announced_with_the_next_message(tmp_path: Path) -> None:
    start = delegating({"tasks": ["late"], "wait": "none"})
    async with serving(Tasks(plan=start, late=lambda _: hangs())) as model, opened(tmp_path, model.base_url) as engine:
        await talk(engine, "plan")
        await eventually(lambda: requests_of(model, "late"))
        swarm = await only_swarm(engine)
    async with serving(Tasks()) as model, opened(tmp_path, model.base_url) as engine, background(engine):
        await eventually(lambda: asyncio.to_thread(lambda: not engine.services.child_runs.unended()))
        await talk(engine, "next")
        assert swarm in str(requests_of(model, "next")[0]["messages"])
        assert len(requests_of(model, "late")) == 1


@pytest.mark.spec("SWARM-1")
def test_workspaces_of_forgotten_child_runs_are_removed_after_a_day(tmp_path: Path) -> None:
    for name, age_s in (("ab-1", 2 * 86_400), ("ab-2", 2 * 86_400), ("ab-3", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.txt").write_text("mine")
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    remove_forgotten(tmp_path, lambda child: child == "ab-1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ab-1", "ab-3"]

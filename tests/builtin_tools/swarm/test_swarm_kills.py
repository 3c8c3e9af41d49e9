"""A parent that is killed finds its children again: each ends exactly once, and no effect happens twice (SWARM-2)."""

import asyncio
import random
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.agent.run_script import Script
from tests.agent.run_tools import Effects
from tests.agent.scripted_model import ScriptedModel, calls, says, serving
from tests.builtin_tools.swarm.swarm_home import last_result, opened, task_of

REPOSITORY = Path(__file__).parents[3]
TASKS = 12
DEADLINE_S = 200.0


def answer(body: dict[str, Any]) -> Any:
    """Delegate to children that each pay twice, and that ask whether a payment happened if they cannot know."""
    task, told = task_of(body), last_result(body)
    if task == "plan":
        if f"{TASKS} of {TASKS} tasks have ended" in told:
            return says("finished" if "of them without" not in told else "failed")
        return calls(("delegate_to_swarm", {"tasks": [f"pay {n}" for n in range(1, TASKS + 1)]}))
    n = int(task.split()[1])
    return Script([[("pay", {"n": made * 100 + n})] for made in range(2)])(body)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.spec("SWARM-2")
async def test_a_parent_that_is_killed_finds_its_children_again(tmp_path: Path) -> None:
    pick = random.Random(7)
    async with serving(answer) as model:
        for kill in range(3):
            target = len(model.requests) + pick.randint(3, 12)
            assert await work(tmp_path, model, target) == "", f"kill {kill} came too late"
        assert await work(tmp_path, model, None) == "answer"
        assert len([body for body in model.requests if task_of(body) == "plan"]) <= 2 + 5
        last = next(body for body in reversed(model.requests) if task_of(body) == "plan")
        assert f"{TASKS} of {TASKS} tasks have ended." in last_result(last)
    paid = Counter(Effects(tmp_path).all())
    assert paid == Counter(f"pay {made * 100 + n}" for made in range(2) for n in range(1, TASKS + 1))
    async with opened(tmp_path, "http://127.0.0.1:1/v1") as engine:
        rows = await asyncio.to_thread(engine.runs.recent, 100)
        assert [row.status for row in rows] == ["answer"] * (TASKS + 1)
        assert await asyncio.to_thread(engine.services.child_runs.unended) == []
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        ends = 'SELECT run, count(*) FROM run_entries WHERE entry LIKE \'%"kind":"ended"%\' GROUP BY run'
        assert [count for _, count in connection.execute(ends)] == [1] * (TASKS + 1)


async def work(home: Path, model: ScriptedModel, kill_at: int | None) -> str:
    """Let a process work until the model has got so many requests, then kill it. Return what it printed."""
    command = [sys.executable, "-m", "tests.builtin_tools.swarm.swarm_victim", str(home), model.base_url]
    process = await asyncio.create_subprocess_exec(*command, cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE)
    said = asyncio.create_task(process.communicate())
    async with asyncio.timeout(DEADLINE_S):
        while kill_at is not None and len(model.requests) < kill_at and not said.done():
            await asyncio.sleep(0.001)
        if kill_at is not None and process.returncode is None:
            process.kill()
        return (await said)[0].decode().strip()

"""A run whose model server is killed, hangs, sends half a stream or answers 429 goes on as if nothing had happened."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.agent.budget import Finish
from engine.agent.events import Event, ModelAwaited
from engine.app.conversation import open_conversation
from engine.app.people import People
from engine.app.settings import Settings
from tests.agent.long_script import LongScript, effects_of, long
from tests.agent.model_process import FEW, MANY, Faults, failing_model
from tests.agent.run_kills import assert_one_result_per_call, compare, last_request
from tests.agent.run_tools import Approving, Effects, source
from tests.agent.run_victims import MESSAGE
from tests.agent.scripted_model import serving

MODEL_TIMEOUT_S = 5.0


async def work(home: Path, url: str) -> list[ModelAwaited]:
    """Do the long run, and return the times that it waited for its model."""
    waits: list[ModelAwaited] = []

    def on_event(event: Event) -> None:
        if isinstance(event, ModelAwaited):
            waits.append(event)

    settings = Settings.model_validate(
        {
            "model": {"name": "scripted", "base_url": url, "timeout_s": MODEL_TIMEOUT_S},
            "budget": {"turns": 200, "tool_calls": 500},
            "policy": {"approval": "destructive"},
        }
    )
    people = People(approver=Approving())
    async with (
        Engine.open(home, settings=settings, sources=[source(Effects(home))], people=people, environ={}) as engine,
        open_conversation(engine, on_event=on_event) as conversation,
    ):
        report = await conversation.run(MESSAGE)
        assert (report.finish, report.answer) == (Finish.ANSWER, "All done.")
    return waits


async def check(tmp_path: Path, faults: Faults, busy_s: float) -> None:
    """Do the long run with a model that never fails, and with one that fails, and compare them."""
    home, folder = tmp_path / "home", tmp_path / "faults"
    folder.mkdir()
    async with serving(LongScript()) as model:
        await work(tmp_path / "usual", model.base_url)
    async with failing_model(folder, faults, busy_s, MESSAGE) as url:
        waits = await work(home, url)
    assert {f"{at} {fault}" for at, fault in faults.items()} <= {file.name for file in folder.iterdir()}
    assert waits  # the client library repeats some requests itself
    assert not compare(_latest(folder), last_request(model), "with a failing model")
    assert_one_result_per_call(home / "runs.db", "with a failing model")
    assert sorted(Effects(home).all()) == effects_of(long())


def _latest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "latest.json").read_text())
    return found


@pytest.mark.slow
@pytest.mark.spec("LOOP-5")
@pytest.mark.timeout(600)
async def test_a_long_run_goes_on_whatever_happens_to_its_model_server(tmp_path: Path) -> None:
    await check(tmp_path, FEW, busy_s=2.0)


@pytest.mark.soak
@pytest.mark.spec("LOOP-5")
@pytest.mark.timeout(1200)
async def test_a_long_run_goes_on_although_its_model_server_fails_at_every_second_turn(tmp_path: Path) -> None:
    await check(tmp_path, MANY, busy_s=60.0)

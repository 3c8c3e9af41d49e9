"""Runs in the journal wait for models and people, are worked on by one process, and can be cancelled."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.agent import patience
from engine.agent.budget import Finish
from engine.agent.conversation import Conversation
from engine.app.background import EngineHost
from engine.app.conversation import open_conversation, runs_of
from engine.app.people import People
from engine.app.resuming import resuming_runs
from engine.app.settings import Settings
from engine.contract.context import CallContext
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.stores.entry_writer import LeaseLost, NewEntries
from engine.stores.run_journal import RunBusy, UnknownRun
from tests.agent.run_script import Script, rounds_of, short
from tests.agent.run_tools import Approving, Effects, source
from tests.agent.scripted_model import Reply, ScriptedModel, breaks_off, calls, fails, hangs, says, serving
from tests.eventually import eventually


@asynccontextmanager
async def opened(
    home: Path,
    model: ScriptedModel,
    *,
    approver: Any = None,
    more: Sequence[Any] = (),
    model_timeout_s: float = 0.5,
    **settings: Any,
) -> AsyncIterator[Engine]:
    values = {
        "model": {"name": "scripted", "base_url": model.base_url, "timeout_s": model_timeout_s},
        "policy": {"approval": "destructive", "approval_expires_s": 0.2},
        **settings,
    }
    people = People(approver=approver)
    sources = [source(Effects(home)), *more]
    given = Settings.model_validate(values)
    async with Engine.open(home, settings=given, sources=sources, packs=False, people=people, environ={}) as engine:
        yield engine


@asynccontextmanager
async def talking(home: Path, model: ScriptedModel, **options: Any) -> AsyncIterator[tuple[Engine, Conversation]]:
    async with opened(home, model, **options) as engine, open_conversation(engine) as conversation:
        yield engine, conversation


def faulty(script: Script, fault: Reply, first: int) -> Callable[[dict[str, Any]], Reply]:
    """Return a model that fails twice from its n-th request on."""
    count = 0

    def reply(body: dict[str, Any]) -> Reply:
        nonlocal count
        count += 1
        return fault if first <= count < first + 2 else script(body)

    return reply


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST_WAIT_S", 0.01)


FAULTS = {
    "answers 429": fails(429),
    "answers 500": fails(500),
    "hangs": hangs(),
    "is killed": breaks_off("Half an", cleanly=False),
    "ends the stream early": breaks_off("Half an", cleanly=True),
}


@pytest.mark.slow
@pytest.mark.spec("LOOP-5")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_run_waits_for_a_model_that_fails_for_a_while(tmp_path: Path, fault: str) -> None:
    async with serving(faulty(Script(short()), FAULTS[fault], first=3)) as model:
        async with talking(tmp_path, model, approver=Approving()) as (_, conversation):
            report = await conversation.run("Do all of it.")
        found = rounds_of(model.requests[-1]["messages"])
    assert (report.finish, report.answer) == (Finish.ANSWER, "All done.")
    assert [made for made, _ in found] == short()
    assert sorted(Effects(tmp_path).all()) == ["drop 1", "pay 1", "send 1"]


@pytest.mark.slow
@pytest.mark.spec("LOOP-5")
async def test_a_run_whose_model_stays_down_stops_and_is_resumed_later(tmp_path: Path) -> None:
    script = Script(short())
    async with (
        serving(lambda body: fails(500) if len(body["messages"]) > 4 else script(body)) as model,
        talking(tmp_path, model, approver=Approving(), runs={"model_wait_s": 0}) as (engine, conversation),
    ):
        report = await conversation.run("Do all of it.")
        assert report.finish is Finish.MODEL_ERROR
        row = engine.runs.one(report.run)
        assert (row.status, row.finish) == ("waiting", "model")
    async with serving(script) as model:
        async with talking(tmp_path, model, approver=Approving()) as (engine, conversation):
            resumed = await conversation.resume(await runs_of(engine).open(report.run))
            assert engine.runs.one(report.run).status == "answer"
        told = str(model.requests[0]["messages"])
    assert (resumed.finish, resumed.answer) == (Finish.ANSWER, "All done.")
    assert "was interrupted here" in told  # `pay` had succeeded
    assert sorted(Effects(tmp_path).all()) == ["drop 1", "pay 1", "send 1"]


@pytest.mark.slow
@pytest.mark.spec("LOOP-5", "ACCESS-8")
async def test_a_run_waits_for_an_approval_and_asks_again_when_it_is_resumed(tmp_path: Path) -> None:
    async with serving(Script(short())) as model:
        async with talking(tmp_path, model) as (engine, conversation):  # nobody can be asked
            report = await conversation.run("Do all of it.")
            assert report.finish is Finish.APPROVAL
            assert engine.runs.one(report.run).status == "waiting"
        assert "drop 1" not in Effects(tmp_path).all()
        asked = len(model.requests)
        async with talking(tmp_path, model) as (engine, conversation):
            again = await conversation.resume(await runs_of(engine).open(report.run))
            assert again.finish is Finish.APPROVAL
        assert len(model.requests) == asked  # waiting costs nothing
        async with talking(tmp_path, model, approver=Approving()) as (engine, conversation):
            resumed = await conversation.resume(await runs_of(engine).open(report.run))
    assert resumed.finish is Finish.ANSWER
    assert sorted(Effects(tmp_path).all()) == ["drop 1", "pay 1", "send 1"]


@pytest.mark.slow
@pytest.mark.spec("LOOP-5", "JOB-2")
async def test_the_message_of_a_job_never_waits_because_its_next_attempt_would_do_the_same_again(
    tmp_path: Path,
) -> None:
    async with serving(Script(short())) as model, opened(tmp_path, model) as engine:  # nobody can be asked
        await EngineHost(engine).send("Do all of it.", Turn())
        assert [row.status for row in engine.runs.recent()] != ["waiting"]
        assert len(engine.runs.recent()) == 1
        assert "drop 1" not in Effects(tmp_path).all()
    async with serving(fails(429)) as model, opened(tmp_path, model, runs={"model_wait_s": 0}) as engine:
        await EngineHost(engine).send("Do all of it.", Turn())
        assert "waiting" not in [row.status for row in engine.runs.recent()]
        assert engine.runs.interrupted("model") == []


@pytest.mark.slow
@pytest.mark.spec("LOOP-5")
async def test_runs_continue_when_an_engine_starts_if_this_is_configured(tmp_path: Path) -> None:
    script = Script(short())
    async with serving(fails(500)) as down, talking(tmp_path, down, runs={"model_wait_s": 0}) as (_, conversation):
        run = (await conversation.run("Do all of it.")).run
    async with serving(script) as model:
        async with opened(tmp_path, model) as engine, resuming_runs(engine):
            pass
        assert model.requests == []  # it is not configured
        options = {"approver": Approving(), "runs": {"resume_at_start": True}}
        async with opened(tmp_path, model, **options) as engine, resuming_runs(engine):
            await eventually(lambda: engine.runs.one(run).status == "answer")
    assert sorted(Effects(tmp_path).all()) == ["drop 1", "pay 1", "send 1"]


@pytest.mark.slow
@pytest.mark.spec("LOOP-5")
async def test_a_run_stays_open_when_its_engine_is_closed(tmp_path: Path) -> None:
    async with serving(hangs()) as model, opened(tmp_path, model, model_timeout_s=60) as engine:
        async with open_conversation(engine, leave_open=True) as conversation:
            task = asyncio.create_task(conversation.run("Wait."))
            await eventually(lambda: model.requests)
            task.cancel()
            await asyncio.wait({task})
        assert [row.status for row in engine.runs.recent()] == ["interrupted"]


@pytest.mark.slow
@pytest.mark.spec("LOOP-5")
async def test_a_new_message_ends_a_run_that_waits_and_the_history_stays_valid(tmp_path: Path) -> None:
    async with serving(calls(("drop", {"n": 1})), says("Then not.")) as model:
        async with talking(tmp_path, model) as (engine, conversation):
            waiting = await conversation.run("Drop it.")
            report = await conversation.run("Never mind.")
            assert engine.runs.one(waiting.run).status == "cancelled"
            assert engine.runs.one(report.run).previous == waiting.run
        assert "Not run" in model.tool_messages()[0]
    assert (report.finish, report.answer) == (Finish.ANSWER, "Then not.")


@pytest.mark.slow
@pytest.mark.spec("LOOP-5")
async def test_exactly_one_process_works_on_a_run(tmp_path: Path) -> None:
    async with (
        serving(calls(("drop", {"n": 1}))) as model,
        talking(tmp_path, model) as (engine, conversation),
        opened(tmp_path, model) as other,
    ):
        run = (await conversation.run("Drop it.")).run
        taken = await runs_of(engine).open(run)
        with pytest.raises(RunBusy, match="knackbox runs follow"):
            await runs_of(other).open(run)
        await taken.recorder.release()
        await runs_of(other).open(run)
        with pytest.raises(RunBusy):
            await runs_of(engine).open(run)
        with pytest.raises(UnknownRun):
            await runs_of(engine).open("0")


@pytest.mark.slow
@pytest.mark.spec("LOOP-5")
async def test_a_worker_whose_lease_was_taken_over_cannot_write(tmp_path: Path) -> None:
    async with serving(calls(("drop", {"n": 1}))) as model, talking(tmp_path, model) as (engine, conversation):
        run = (await conversation.run("Drop it.")).run
        stale = engine.runs.claim(run)
        engine.runs.release(stale)
        valid = engine.runs.claim(run)
        before = engine.runs.one(run).last
        with pytest.raises(LeaseLost):
            engine.runs.append(stale, NewEntries([(0.0, "{}")]))
        assert engine.runs.one(run).last == before
        engine.runs.append(valid, NewEntries([]))


@pytest.mark.slow
@pytest.mark.spec("LOOP-5")
async def test_a_run_is_cancelled_by_another_process(tmp_path: Path) -> None:
    started = asyncio.Event()

    @tool(annotations=Annotations(), timeout_s=60.0)
    async def stay(ctx: CallContext) -> str:
        """Stay."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    async with (
        serving(calls(("stay", {}))) as model,
        opened(tmp_path, model) as other,
        talking(tmp_path, model, more=[StaticSource("stays", (stay,))]) as (engine, conversation),
    ):
        task = asyncio.create_task(conversation.run("Stay."))
        async with asyncio.timeout(30):
            await started.wait()
            run = (await eventually(other.runs.recent))[0]
            assert run.working
            other.runs.ask_to_cancel(run.id)
            report = await task
        assert engine.runs.one(run.id).status == "cancelled"
    assert report.finish is Finish.CANCELLED
    assert [one.result.success for one in report.calls] == [False]

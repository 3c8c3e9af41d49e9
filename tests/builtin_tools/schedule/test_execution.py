"""Jobs run through the engine, with the rights of their creator, and failures are repeated only where that is safe."""

import asyncio
from pathlib import Path

import pytest

from builtin_tools.schedule.service import ScheduleService
from engine import Engine
from engine.app.background import background
from engine.app.settings import ModelSettings, RunSettings, Settings
from engine.contract.allowed import Allowed
from engine.contract.failure import FailureClass
from engine.contract.scheduler import InstantState, JobState
from engine.contract.turn import Turn
from tests.agent.scripted_model import calls, fails, says, serving
from tests.builtin_tools.schedule.conftest import JobHome, open_jobs
from tests.builtin_tools.schedule.jobs import ADA
from tests.eventually import eventually
from tests.interfaces.test_mcp_output_schemas import LETTERS
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS

pytestmark = [pytest.mark.spec("JOB-1", "JOB-2"), pytest.mark.slow]


async def test_a_job_calls_its_tool_at_its_time_as_its_creator(home: JobHome) -> None:
    job_id = await home.create(Turn(user="ada", agent="planner"))
    async with home.working():
        home.clock.later(hours=1)
        done = await home.until(job_id, InstantState.DONE)
    assert home.pings.seen == ["it for ada as planner"]
    assert done.text == "noted it"
    (audited, *_) = await home.engine.audit(1)
    assert audited["tool"] == "ping"
    assert audited["user"] == "ada"


async def test_a_job_may_do_no_more_than_its_creator(home: JobHome) -> None:
    refused = await home.manage(
        "create",
        Turn(user="ada", permission="user"),
        name="a",
        schedule="every 1 hour",
        tool="shut_down",
        arguments={"what": "it"},
    )
    assert not refused.success
    assert "no tool 'shut_down' that you may call" in refused.error
    limited = Turn(user="ada", allowed=Allowed.of(["ping", "manage_tasks"]))
    job_id = await home.create(limited)
    stored = home.service.store.job(None, job_id)
    assert stored.turn.allowed == limited.allowed


async def test_rights_that_were_lost_after_a_job_was_created_are_missing_when_it_runs(home: JobHome) -> None:
    await home.engine.registries.register_agent({"spec_id": "helper", "allowed_tools": ["ping", "manage_tasks"]})
    job_id = await home.create(await home.engine.turn_of("helper", ADA))
    await asyncio.to_thread(home.engine.registries.agents.set_disabled, "helper", True)
    async with home.working():
        home.clock.later(hours=1)
        failed = await home.until(job_id, InstantState.FAILED)
    assert home.pings.seen == []
    assert "may call" in failed.reason or "disabled" in failed.reason


async def test_another_agent_of_the_user_cannot_make_a_job_run(home: JobHome) -> None:
    job_id = await home.create()
    for turn in (Turn(user="ada", agent="other"), Turn(user="ada", permission="user")):
        for action in ("run_now", "resume"):
            refused = await home.manage(action, turn, id=job_id)
            assert refused.failure is not None
            assert refused.failure.reason == "denied"
    assert (await home.manage("show", Turn(user="bob"), id=job_id)).success is False
    assert (await home.manage("pause", Turn(user="ada", agent="other"), id=job_id)).success


async def test_a_temporary_failure_of_a_tool_that_only_reads_is_repeated_later(home: JobHome) -> None:
    job_id = await home.create(tool="look", schedule="in 1 hour")
    home.pings.fail_with = [FailureClass.RETRYABLE] * 3  # the pipeline makes three attempts of its own
    async with home.working():
        home.clock.later(hours=1)
        waiting = await home.until(job_id, InstantState.DUE)
        assert waiting.reason == "RETRYABLE: busy"
        home.clock.later(seconds=40)
        done = await home.until(job_id, InstantState.DONE)
    assert done.attempts == 2
    assert home.service.store.job(None, job_id).runs == 1


@pytest.mark.parametrize("kind", [FailureClass.RETRYABLE, FailureClass.FATAL, FailureClass.DIAGNOSTIC])
async def test_a_failure_that_is_not_safe_to_repeat_ends_the_run(home: JobHome, kind: FailureClass) -> None:
    job_id = await home.create()
    home.pings.fail_with = [kind]
    async with home.working():
        home.clock.later(hours=1)
        await home.until(job_id, InstantState.FAILED)
    assert len(home.pings.seen) == 1


@pytest.mark.parametrize(("tool", "state"), [("look", InstantState.DUE), ("ping", InstantState.UNKNOWN)])
async def test_a_run_that_is_stopped_is_repeated_only_if_it_only_reads(
    home: JobHome, tool: str, state: InstantState
) -> None:
    job_id = await home.create(tool=tool)
    home.pings.hold = asyncio.Event()
    async with home.working(stop_s=0):
        home.clock.later(hours=1)
        await eventually(lambda: home.pings.seen)
    stopped = home.newest(job_id)
    assert stopped is not None
    assert stopped.state is state
    assert "stopped" in stopped.reason
    listed = await home.manage("list")
    assert listed.output[0]["unknown"] == (state is InstantState.UNKNOWN)
    assert ("may have had an effect, see" in listed.text) == (state is InstantState.UNKNOWN)


async def test_a_worker_that_is_stopped_lets_its_runs_end(home: JobHome) -> None:
    job_id = await home.create()
    home.pings.hold = asyncio.Event()
    async with home.working():
        home.clock.later(hours=1)
        await eventually(lambda: home.pings.seen)
        asyncio.get_running_loop().call_later(0.05, home.pings.hold.set)
    stopped = home.newest(job_id)
    assert stopped is not None
    assert stopped.state is InstantState.DONE


async def test_a_message_is_worked_on_by_the_loop_with_tools(tmp_path: Path) -> None:
    async with serving(calls(("ping", {"what": "the report"})), says("Reported.")) as model:
        settings = Settings(model=ModelSettings(name="scripted", base_url=model.base_url))
        async with open_jobs(tmp_path, settings) as home:
            job_id = await home.create(message="Write the report.", schedule="every day at 18:00", max_tokens=25)
            async with home.working():
                home.clock.later(hours=3)
                done = await home.until(job_id, InstantState.DONE)
                job = home.service.store.job(None, job_id)
            prompt = str(model.requests[0]["messages"])
    assert "Write the report." in prompt
    assert home.pings.seen == ["the report for ada as main"]
    assert done.text == "Reported."
    assert done.tokens == 20
    assert job.tokens == 20
    assert job.state is JobState.ACTIVE


async def test_a_model_that_cannot_be_reached_is_asked_again_later(tmp_path: Path) -> None:
    async with serving(*[fails(503)] * 12, says("Reported.")) as model:
        chosen = ModelSettings(name="scripted", base_url=model.base_url)
        settings = Settings(model=chosen, runs=RunSettings(model_wait_s=0))
        async with open_jobs(tmp_path, settings) as home:
            job_id = await home.create(message="Write the report.", schedule="in 1 hour")
            async with home.working():
                home.clock.later(hours=1)
                waiting = await home.until(job_id, InstantState.DUE)
    assert waiting.reason == "model_error"


async def test_without_a_model_a_message_fails_with_the_remedy(home: JobHome) -> None:
    job_id = await home.create(message="Write the report.")
    async with home.working():
        home.clock.later(hours=1)
        failed = await home.until(job_id, InstantState.FAILED)
    assert "model" in failed.reason


async def test_jobs_of_one_home_are_shared_by_engines(home: JobHome, tmp_path: Path) -> None:
    job_id = await home.create()
    async with open_jobs(tmp_path) as other:
        assert [job.id for job in other.engine.need(ScheduleService).store.jobs("ada")] == [job_id]


async def test_a_keyed_call_that_took_place_is_not_made_again_and_the_history_says_so(home: JobHome) -> None:
    job_id = await home.create(tool="pay", schedule="every 1 hour")
    async with home.working():
        for _ in range(2):
            home.clock.later(hours=1)
            await eventually(lambda: (found := home.newest(job_id)) and found.at == home.clock.time and found.ended)
    second, first = home.service.store.history(None, job_id, 2)
    assert len(home.pings.seen) == 1
    assert (first.state, first.reason) == (InstantState.DONE, "")
    assert second.state is InstantState.DONE
    assert "same idempotency key" in second.reason
    assert second.text == first.text


async def test_a_job_calls_a_skill_in_a_box(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, environ=ENVIRON_WITHOUT_MUTANTS) as engine:
        learned = await engine.call("create_skill", LETTERS, ADA)
        assert learned.success, learned.error
        what = {"name": "letters", "schedule": "in 1 second", "skill": "letters_of", "arguments": {"text": "abb"}}
        created = await engine.call("manage_tasks", {"action": "create", **what}, ADA)
        assert created.success, created.error
        async with background(engine):
            store = engine.need(ScheduleService).store
            (done,) = await eventually(
                lambda: [each for each in store.history("ada", created.output["id"], 1) if each.ended is not None]
            )
    assert (done.state, done.text) == (InstantState.DONE, '{"a":1,"b":2}')

"""`manage_tasks` creates, shows and changes jobs, and says what is wrong with a request."""

from typing import Any

import pytest

from builtin_tools.schedule.manage_tasks import manage_tasks
from engine.contract.scheduler import InstantState
from engine.contract.turn import Turn
from tests.builtin_tools.schedule.conftest import JobHome

pytestmark = [pytest.mark.spec("JOB-2", "TOOL-8"), pytest.mark.slow]


def test_every_parameter_is_described_to_the_model() -> None:
    spec = manage_tasks.spec
    assert "Args:" not in spec.description
    for name, schema in spec.parameters["properties"].items():
        assert schema.get("description"), name
    assert {"message", "arguments"} <= set(spec.private_arguments)


async def test_a_job_is_created_listed_run_paused_resumed_and_deleted(home: JobHome) -> None:
    created = await home.manage(
        "create",
        name="report",
        schedule="every weekday at 9",
        time_zone="Europe/Berlin",
        tool="ping",
        arguments={"what": "x"},
    )
    assert created.output["meaning"] == "cron 0 0 9 * * 1-5 (Europe/Berlin)"
    assert created.output["next_run"] == "2026-03-12T09:00:00+01:00"
    job_id = created.output["id"]
    async with home.working():
        ran = await home.manage("run_now", id=job_id)
        assert ran.success, ran.error
        await home.until(job_id, InstantState.DONE)
    (listed,) = (await home.manage("list")).output
    assert listed["last"]["state"] == "done"
    assert listed["last"]["result"] == "noted x"
    (past,) = (await home.manage("history", id=job_id)).output
    assert past["attempts"] == 1
    paused = await home.manage("pause", id=job_id)
    assert (paused.output["state"], paused.output["why"], paused.output["next_run"]) == ("paused", "on request", None)
    resumed = await home.manage("resume", id=job_id)
    assert resumed.output["next_run"] == created.output["next_run"]
    assert (await home.manage("delete", id=job_id)).success
    assert (await home.manage("list")).output == []
    assert not (await home.manage("show", id=job_id)).success


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": ""}, "name"),
        ({"schedule": ""}, "`schedule` is missing"),
        ({"schedule": "whenever"}, "not understood"),
        ({"schedule": "tomorrow"}, "names no time of day"),
        ({"time_zone": "Mars/Olympus"}, "not a time zone"),
        ({"message": "and this"}, "exactly one"),
        ({"tool": ""}, "exactly one"),
        ({"tool": "pong"}, "no tool 'pong'"),
        ({"tool": "manage_tasks", "arguments": {"action": "list"}}, "cannot manage jobs"),
        ({"tool": "", "skill": "ping"}, "not a skill"),
        ({"arguments": {}}, "what"),
        ({"arguments": {"what": "x" * 30_000}}, "characters at most"),
    ],
)
async def test_a_wrong_request_is_refused_with_the_reason(home: JobHome, arguments: dict[str, Any], said: str) -> None:
    given = {"name": "a", "schedule": "every 1 hour", "tool": "ping", "arguments": {"what": "it"}} | arguments
    refused = await home.manage("create", **given)
    assert not refused.success
    assert said in refused.error
    assert (await home.manage("list")).output == []


async def test_jobs_are_private_to_their_user_and_closed_to_guests(home: JobHome) -> None:
    await home.create()
    assert (await home.manage("list", Turn(user="bob"))).output == []
    assert not (await home.manage("list", Turn(user="ada", permission="guest"))).success


async def test_what_a_job_does_is_not_in_the_audit(home: JobHome) -> None:
    await home.create(arguments={"what": "a secret"})
    assert "a secret" not in str(await home.engine.audit(10))

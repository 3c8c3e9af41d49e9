"""`manage_projects` creates, shows and changes projects, and the active one is in the prompt."""

from typing import Any

import pytest

from builtin_tools.projects.manage_projects import manage_projects
from builtin_tools.projects.project import with_note
from builtin_tools.projects.summary import MOST_CHARACTERS
from engine.contract.allowed import Allowed
from engine.contract.turn import Turn
from tests.builtin_tools.projects.conftest import ADA, ProjectHome

pytestmark = [pytest.mark.spec("JOB-3", "TOOL-8"), pytest.mark.slow]

TASKS = [{"title": "Draft"}, {"title": "Build", "needs": ["Draft"]}, {"title": "Publish", "needs": [2]}]


def test_every_parameter_is_described_to_the_model() -> None:
    spec = manage_projects.spec
    assert "Args:" not in spec.description
    for name, schema in spec.parameters["properties"].items():
        assert schema.get("description"), name


async def test_a_project_goes_through_its_life(home: ProjectHome) -> None:
    created = await home.manage("create", name="Site", goal="A new site.", tasks=TASKS, state="active")
    assert created.success, created.error
    assert [task["waits_for"] for task in created.output["tasks"]] == [[], [1], [2]]
    early = await home.manage("update_task", number=3, state="doing")
    assert "Task 3 waits for 2" in early.text
    for number in (1, 2, 3):
        changed = await home.manage("update_task", number=number, state="done")
        assert changed.success, changed.error
    assert (await home.manage("add_note", note="It is in folder\nsite.")).success
    assert (await home.manage("link", kind="file", target="site/index.html")).success
    done = await home.manage("set_state", state="done")
    assert (done.output["state"], done.output["notes"][0]["text"]) == ("done", "It is in folder\nsite.")
    assert "`project` is needed" in (await home.manage("show")).text
    shown = await home.manage("show", project="SITE")
    assert shown.output == done.output
    (listed,) = (await home.manage("list")).output
    assert (listed["tasks"], listed["done"]) == (3, 3)
    assert (await home.manage("delete", project="Site")).success
    assert (await home.manage("list")).output == []


async def test_a_project_that_becomes_active_pauses_the_other(home: ProjectHome) -> None:
    await home.manage("create", name="one", state="active")
    second = await home.manage("create", name="two", state="active")
    assert "one is paused now." in second.text
    again = await home.manage("set_state", project="one", state="active")
    assert "two is paused now." in again.text
    assert {each["name"]: each["state"] for each in (await home.manage("list")).output} == {
        "one": "active",
        "two": "paused",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"action": "create"}, "The name is empty"),
        ({"action": "create", "name": "A  site"}, "already has a project 'a site'"),
        ({"action": "create", "name": "x", "state": "doing"}, "A project cannot be doing"),
        ({"action": "create", "name": "x", "tasks": [{"title": "t", "needs": [1]}]}, "wait for each other"),
        ({"action": "update"}, "`name` or `goal` is missing"),
        ({"action": "set_state"}, "`state` is missing"),
        ({"action": "add_tasks"}, "`tasks` is missing"),
        ({"action": "update_task"}, "`number` is missing"),
        ({"action": "update_task", "number": 1, "state": "active"}, "A task cannot be active"),
        ({"action": "add_note"}, "`note` is missing"),
        ({"action": "remove_note"}, "`number` is missing"),
        ({"action": "link", "target": "x"}, "`kind` is missing"),
        ({"action": "link", "kind": "run"}, "`target` is missing"),
        ({"action": "show", "project": "nothing"}, "There is no project 'nothing'"),
        ({"action": "delete"}, "name the project to delete"),
    ],
)
async def test_a_wrong_request_is_refused_and_changes_nothing(
    home: ProjectHome, arguments: dict[str, Any], said: str
) -> None:
    await home.manage("create", name="a site", state="active", tasks=TASKS)
    before = home.store.projects(None)
    refused = await home.manage(**arguments)
    assert not refused.success
    assert said in refused.text
    assert home.store.projects(None) == before


async def test_users_do_not_see_each_others_projects(home: ProjectHome) -> None:
    created = await home.manage("create", name="secret", state="active")
    bob = Turn(user="bob")
    assert (await home.manage("list", bob)).output == []
    assert not (await home.manage("show", bob, project=created.output["id"])).success
    assert (await home.manage("create", bob, name="secret")).success
    assert "secret" not in await home.prompt(bob)


@pytest.mark.spec("LOOP-8")
async def test_the_active_project_is_in_the_prompt_and_changes_only_with_it(home: ProjectHome) -> None:
    assert "project" not in await home.prompt()
    await home.manage("create", name="Site", goal="A new site.", tasks=TASKS, state="active")
    prompt = await home.prompt()
    assert "Site" in prompt
    assert "2. Build (waits for 1)" in prompt
    await home.manage("create", name="Other", goal="Not now.")
    assert await home.prompt() == prompt
    await home.manage("update_task", number=1, state="done")
    assert "1 of 3 tasks done" in await home.prompt()
    for number in range(30):
        home.store.change("ada", "Site", lambda project, at, number=number: with_note(project, f"{number} " * 900, at))
    assert 0 < len(await home.prompt()) <= MOST_CHARACTERS
    await home.manage("set_state", state="paused")
    assert await home.prompt() == ""


async def test_a_turn_of_a_project_sees_this_project_instead_of_the_active_one(home: ProjectHome) -> None:
    await home.manage("create", name="first", state="active")
    two = await home.manage("create", name="two")
    turn = Turn(user="ada", project=two.output["id"])
    assert "two" in await home.prompt(turn)
    assert "first" not in await home.prompt(turn)
    noted = await home.manage("add_note", turn, note="n")
    assert noted.output["name"] == "two"
    await home.manage("delete", project="two")
    assert await home.prompt(turn) == ""


async def test_an_agent_that_may_not_manage_projects_does_not_see_them(home: ProjectHome) -> None:
    await home.manage("create", name="one", state="active")
    assert await home.prompt(Turn(user="ada", allowed=Allowed.of(["execute"]))) == ""
    assert "one" in await home.prompt(Turn(user="ada", allowed=Allowed.of(["manage_*"])))


async def test_a_job_may_belong_to_a_project(home: ProjectHome) -> None:
    created = await home.manage("create", name="one")
    job = {"action": "create", "name": "a", "schedule": "every day at 9", "message": "Go on."}
    made = await home.engine.call("manage_tasks", {**job, "project": "One"}, ADA)
    assert made.output["project"] == created.output["id"]
    within = await home.engine.call("manage_tasks", job, Turn(user="ada", project=created.output["id"]))
    assert within.output["project"] == created.output["id"]
    wrong = await home.engine.call("manage_tasks", {**job, "project": "nothing"}, ADA)
    assert "There is no project 'nothing'" in wrong.text


@pytest.mark.spec("MEM-6")
async def test_forget_names_the_projects_that_contain_a_forgotten_text(home: ProjectHome) -> None:
    fact = {"action": "insert_fact", "text": "The code of the door is 4711."}
    assert (await home.engine.call("knowledge_base", fact, ADA)).success
    await home.manage("create", name="door", goal="Remember: The code of the door is 4711.")
    forget = {"action": "forget", "query": "code of the door"}
    asked = await home.engine.call("knowledge_base", forget, ADA)
    forgotten = await home.engine.call("knowledge_base", {**forget, "confirm": asked.output["confirm"]}, ADA)
    assert "projects.db" in forgotten.text

"""`knackbox memory profile|lessons|dream` for people."""

from pathlib import Path

import pytest

from tests.interfaces.cli import Ran, here

pytestmark = [pytest.mark.spec("MEM-10"), pytest.mark.slow]


def memory(capfd: pytest.CaptureFixture[str], home: Path, *arguments: str) -> Ran:
    return here(capfd, "--home", str(home), "memory", *arguments)


@pytest.mark.spec("MEM-8")
def test_the_profile_is_set_shown_with_its_history_and_removed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    assert memory(capfd, home, "profile").err.endswith("the profile is empty.\n")
    memory(capfd, home, "profile", "home_city", "Rome")
    now = memory(capfd, home, "profile", "home_city", "Oslo", "--json").last
    assert [(row["key"], row["value"]) for row in now] == [("home_city", "Oslo")]
    past = memory(capfd, home, "profile", "home_city", "--json").last
    assert [(row["value"], bool(row["until"])) for row in past] == [("Rome", True), ("Oslo", False)]
    assert memory(capfd, home, "profile", "--user", "bob", "--json").last == []
    assert memory(capfd, home, "profile", "home_city", "--remove").code == 0
    refused = memory(capfd, home, "profile", "home_city", "--remove")
    assert (refused.code, "The profile has no 'home_city'." in refused.err) == (2, True)
    assert memory(capfd, home, "profile", "Home City!", "Oslo").code == 2


def test_there_are_no_lessons_in_a_new_home(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert memory(capfd, tmp_path / "home", "lessons").err.endswith("no lessons yet.\n")
    assert memory(capfd, tmp_path / "home", "lessons", "--json").last == []


@pytest.mark.spec("MEM-9")
def test_a_plan_is_made_shown_applied_and_taken_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    assert memory(capfd, home, "dream", "list").err.endswith("there are no plans yet.\n")
    missing = memory(capfd, home, "dream", "show")
    assert (missing.code != 0, "there is no such plan" in missing.err) == (True, True)

    for text in ("The parcel for Bob is in the hallway.", "The parcel for Bob is currently in the hallway"):
        memory(capfd, home, "add", text)
    before = memory(capfd, home, "list", "--json").last
    assert len(before) == 2

    plan = memory(capfd, home, "dream", "--json").last
    assert plan["complete"]
    assert len(plan["steps"]) == 1
    assert memory(capfd, home, "list", "--json").last == before
    shown = memory(capfd, home, "dream", "show").out.splitlines()
    assert shown == [f"plan {plan['plan']} of {plan['made']}: 1 step", f"  {plan['steps'][0]}"]

    assert memory(capfd, home, "dream", "apply").code == 0
    replaced = [row.get("replaced_by") for row in memory(capfd, home, "list", "--json").last]
    assert replaced == [None, before[0]["id"]]
    assert memory(capfd, home, "dream", "undo", "--plan", plan["plan"]).code == 0
    assert memory(capfd, home, "list", "--json").last == before
    assert [row["plan"] for row in memory(capfd, home, "dream", "list", "--json").last] == [plan["plan"]]

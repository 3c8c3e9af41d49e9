"""Changes of registered items are published. (REG-8)"""

import json

import pytest

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import SkillState
from engine import Engine
from engine.app.settings import Settings
from engine.registry.updates import REGISTRY_UPDATED, Update
from tests.registry.parts import engine, published, settings
from tests.skills.parts import ADD_ONE_TESTS, proposal

pytestmark = pytest.mark.spec("REG-8")


@pytest.mark.slow
async def test_every_change_of_a_skill_is_published_at_the_latest_at_the_next_start(tmp_path):
    async with engine(tmp_path, packs=True) as one:
        library = one.need(SkillLibrary)
        await library.create(proposal(tests=ADD_ONE_TESTS))
        await library.set_state("add_one", SkillState.DISABLED)
        await library.set_state("add_one", SkillState.ACTIVE)
        await library.delete("add_one")
        await library.restore("add_one")
        heard = ["upsert", "disable", "upsert", "delete", "upsert"]
        assert published(one) == [(event, "add_one") for event in heard]
    folder = tmp_path / "acquired_skills" / "add-one"
    folder.rename(tmp_path / "elsewhere")  # as one who was killed after the folder, or a person
    async with engine(tmp_path, packs=True) as one:
        assert published(one)[5:] == [("delete", "add_one")]
    (tmp_path / "elsewhere").rename(folder)
    async with engine(tmp_path, packs=True) as one:
        assert published(one)[6:] == [("upsert", "add_one")]
    async with engine(tmp_path, packs=True) as one:
        assert len(published(one)) == 7


async def test_when_a_change_is_published_the_generation_of_tools_has_changed(tmp_path):
    async with engine(tmp_path) as one:
        before = one.tools_generation()
        one.services.updates.publish("prompts", "upsert", "p")
        assert one.tools_generation() == before
        one.services.updates.publish("tools", "upsert", "t", "a-space")
        assert one.tools_generation() > before
        assert [each.payload["space_id"] for each in one.events.read()] == ["default", "a-space"]


async def test_keepers_reconcile_only_their_own_items(tmp_path):
    async with engine(tmp_path) as one:
        updates = one.services.updates
        updates.publish_all(
            [Update("tools", "upsert", "a", state="1"), Update("tools", "upsert", "b", state="1")], keeper="x"
        )
        updates.publish_all([Update("tools", "upsert", "c", state="1")], keeper="y")
        already = len(published(one))
        updates.reconcile("x", "tools", {"a": "1", "d": "2"}, disabled={"d"})
        assert published(one)[already:] == [("disable", "d"), ("delete", "b")]
        assert updates.reconcile("x", "tools", {"a": "1", "d": "2"}, disabled={"d"}) == []
        assert updates.published_states("y", "tools") == {"c": "1"}


async def test_changes_are_published_for_the_space_of_the_home(tmp_path):
    def spaces(opened):
        payloads = [each.payload for each in opened.events.read() if each.type == REGISTRY_UPDATED]
        return [(each["space_id"], each["event"], each["item_id"]) for each in payloads]

    async with engine(tmp_path) as one:
        await one.registries.register_agent({"spec_id": "agent://planner@deviceA"})
        assert spaces(one) == [("default", "upsert", "agent://planner@deviceA")]
    shared = Settings.model_validate({"registry": {"space_id": "shared:household"}})
    for _ in range(2):  # moved once, and published once
        async with Engine.open(tmp_path, settings=shared, packs=False, environ={}) as one:
            assert spaces(one)[1:] == [
                ("shared:household", "upsert", "agent://planner@deviceA"),
                ("default", "delete", "agent://planner@deviceA"),
            ]
    with pytest.raises(ValueError, match="space_id"):
        Settings.model_validate({"registry": {"space_id": "two words"}})


def test_adapter_prefixes_must_be_module_names():
    with pytest.raises(ValueError, match="not the name of a module"):
        settings("not a module")
    assert json.loads(settings("a.b").registry.model_dump_json()) == {
        "adapter_prefixes": ["a.b"],
        "space_id": "default",
    }

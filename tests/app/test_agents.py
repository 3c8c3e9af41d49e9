"""A turn that names a registered agent is limited by the agent's entry. (REG-7, ACCESS-5)"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.app.settings import Settings
from engine.contract.allowed import Allowed
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.spec import Origin
from engine.contract.turn import Turn
from engine.registry.decorate import tool
from engine.registry.static import RegistryError, StaticSource
from tests.eventually import eventually

pytestmark = pytest.mark.spec("REG-7", "ACCESS-5")

KEEPER = {"spec_id": "keeper", "allowed_tools": ["look", "unlock", "launch"], "caps": ["keys"]}
CAREFUL = KEEPER | {"policy_overrides": {"band_floor": "RED"}}
AS_KEEPER = Turn(agent="keeper")
SEARCHING = Turn(agent="keeper", use_tool_search_flow=True)


@tool()
async def look() -> str:
    """Look."""
    return "seen"


@tool(caps_required=("keys",))
async def unlock() -> str:
    """Unlock."""
    return "open"


@tool(safety_class="HIGH")
async def launch() -> str:
    """Launch."""
    return "up"


@tool()
async def other() -> str:
    """Do something else."""
    return "done"


@asynccontextmanager
async def opened(home: Path, **options: Any) -> AsyncIterator[Engine]:
    source = StaticSource("mine", [look, unlock, launch, other])
    async with Engine.open(home, sources=[source], packs=False, environ={}, **options) as engine:
        yield engine


async def names(engine: Engine, turn: Turn | None = None) -> set[str]:
    return {spec.name for spec in await engine.get_active_tool_definitions(turn)}


async def test_a_turn_is_limited_by_the_agent_it_names(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        assert "other" in await names(engine, AS_KEEPER)  # a name that is not registered
        await engine.registries.register_agent(CAREFUL)
        assert await names(engine, AS_KEEPER) == {"look", "unlock"}
        assert (await engine.call("unlock", {}, AS_KEEPER)).output == "open"
        assert "band is RED" in (await engine.call("launch", {}, AS_KEEPER)).error
        for call in (
            engine.call("other", {}, AS_KEEPER),
            engine.call("execute_tool", {"name": "other", "tool_args": {}}, SEARCHING),
            engine.call("other", {}, await engine.turn_of("keeper")),
        ):
            refused = await call
            assert refused.failure is not None
            assert refused.failure.failure_class is FailureClass.FATAL
            assert "allow-list" in refused.error
        found = await engine.call("search_tools", {}, SEARCHING)
        assert {each["name"] for each in found.output} == {"look", "unlock"}
        assert set(await engine.get_available_tools(AS_KEEPER)) == {"look", "unlock"}
        assert (await engine.describe_tool("look", AS_KEEPER)).name == "look"
        with pytest.raises(ToolFailure, match="no tool 'other' that you may call"):
            await engine.describe_tool("other", AS_KEEPER)
        assert (await engine.call("other", {}, Turn(agent="somebody"))).success


async def test_a_registered_agent_has_only_its_own_caps(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await engine.registries.register_agent({"spec_id": "keeper"})
        assert (
            "does not hold the required caps: keys"
            in (await engine.call("unlock", {}, Turn(agent="keeper", caps=frozenset({"keys"})))).error
        )


@tool(name="files_write_text")
async def write_text(text: str) -> str:
    """Write a text."""
    return text


async def test_allowed_tools_are_tool_ids_as_well_as_names(tmp_path: Path) -> None:
    named = replace(write_text, spec=replace(write_text.spec, id="files.write_text"))
    async with Engine.open(tmp_path, sources=[StaticSource("files", [named, look])], packs=False, environ={}) as engine:
        for number, given in enumerate(("files.write_text", "files.*", "files_write_text")):
            agent = Turn(agent=f"writer{number}")
            await engine.registries.register_agent({"spec_id": agent.agent, "allowed_tools": [given]})
            assert await names(engine, agent) == {"files_write_text"}
            assert (await engine.call("files_write_text", {"text": "x"}, agent)).success
            assert not (await engine.call("look", {}, agent)).success


async def test_an_acquired_tool_cannot_impersonate_another_by_its_id() -> None:
    allowed = Allowed.of(["files.write_text"])
    forged = replace(write_text.spec, id="files.write_text", name="anything", origin=Origin.ACQUIRED)
    assert not allowed.permits(forged)
    assert allowed.permits(replace(forged, origin=Origin.STATIC))


@pytest.mark.parametrize("agent", ["agent://planner@deviceA", "planner@deviceA", "agent://planner", "a.b-c_d"])
async def test_the_id_of_an_agent_may_be_a_uri(tmp_path: Path, agent: str) -> None:
    async with opened(tmp_path) as engine:
        await engine.registries.register_agent({"spec_id": agent, "allowed_tools": ["look"]})
        assert await names(engine, Turn(agent=agent)) == {"look"}
        assert (await engine.call("look", {}, Turn(agent=agent))).success
        assert [row["agent"] for row in await engine.audit()] == [agent]
    async with opened(tmp_path) as engine:  # it is still registered at the next start
        assert not (await engine.call("other", {}, Turn(agent=agent))).success


@pytest.mark.parametrize("agent", ["agent://", "planner@", "a b", "http://planner", "agent://../x", "x@y@z", ""])
async def test_invalid_agent_ids_are_refused(tmp_path: Path, agent: str) -> None:
    async with opened(tmp_path) as engine:
        with pytest.raises(RegistryError, match="spec_id"):
            await engine.registries.register_agent({"spec_id": agent})


async def test_the_configuration_may_restrict_an_agent_further(tmp_path: Path) -> None:
    (tmp_path / "allow_lists.yaml").write_text("lists:\n  lookers:\n    tools: [look, other]\n")
    settings = Settings.model_validate({"access": {"allow_list": "lookers"}})
    async with opened(tmp_path, settings=settings) as engine:
        await engine.registries.register_agent(KEEPER)
        assert await names(engine) == {"look", "other"}
        assert await names(engine, AS_KEEPER) == {"look"}
        with pytest.raises(ToolFailure):
            await engine.describe_tool("unlock", AS_KEEPER)


async def test_the_default_agent_can_be_registered_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await engine.registries.register_agent(KEEPER | {"spec_id": "main"})
        assert await names(engine) == {"look", "unlock", "launch"}
        assert not (await engine.call("other", {})).success


async def test_a_disabled_agent_is_offered_nothing_and_can_call_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await engine.registries.register_agent(KEEPER)
        before = await engine.turn_of("keeper")
        await asyncio.to_thread(engine.registries.agents.set_disabled, "keeper", True)
        for turn in (AS_KEEPER, SEARCHING, before):
            assert await names(engine, turn) == set()
            refused = await engine.call("look", {}, turn)
            assert refused.failure is not None
            assert refused.failure.failure_class is FailureClass.FATAL
            assert "agent keeper has been disabled since" in refused.error
            assert "registry enable keeper --kind agent" in refused.error
        assert (await engine.call("look", {})).success
        await asyncio.to_thread(engine.registries.agents.set_disabled, "keeper", False)
        assert (await engine.call("look", {}, AS_KEEPER)).success


async def refused(engine: Engine, name: str) -> bool:
    return not (await engine.call(name, {}, AS_KEEPER)).success


async def test_agents_registered_by_another_process_limit_calls_of_this_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine, opened(tmp_path) as elsewhere:
        assert (await engine.call("other", {}, AS_KEEPER)).success
        await elsewhere.registries.register_agent(KEEPER)
        await eventually(lambda: refused(engine, "other"))
        assert await names(engine, AS_KEEPER) == {"look", "unlock", "launch"}
        await elsewhere.registries.register_agent(KEEPER | {"allowed_tools": ["look"]})
        assert await engine.registries.problems() == []  # this reads the file
        assert not (await engine.call("launch", {}, AS_KEEPER)).success


async def test_an_agent_with_an_unreadable_entry_can_call_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await engine.registries.register_agent(KEEPER)
    file = tmp_path / "registries" / "agents.json"
    document = json.loads(file.read_text())
    document["items"]["keeper"]["alowed_tools"] = document["items"]["keeper"].pop("allowed_tools")
    file.write_text(json.dumps(document))
    async with opened(tmp_path) as engine:
        assert "agent keeper cannot be read" in (await engine.call("other", {}, AS_KEEPER)).error
        assert await names(engine, AS_KEEPER) == set()


@pytest.mark.spec("REG-5")
@pytest.mark.parametrize("running", [True, False])
async def test_agents_of_a_damaged_file_can_call_nothing(tmp_path: Path, running: bool) -> None:
    async with opened(tmp_path) as engine:
        await engine.registries.register_agent(KEEPER)
        file = tmp_path / "registries" / "agents.json"
        file.write_text("{")
        if running:
            await eventually(lambda: refused(engine, "look"))
    for _ in range(2):
        async with opened(tmp_path) as engine:
            assert "agent keeper has been disabled since" in (await engine.call("other", {}, AS_KEEPER)).error
            assert (await engine.call("other", {})).success

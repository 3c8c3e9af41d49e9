"""Ports of a call's context are created for its turn, limited by its agent, and None if no pack implements them."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine import Engine
from engine.app.packs import OpenedPacks
from engine.app.settings import ModelSettings, Settings
from engine.app.turns import turn_of
from engine.contract.context import CallContext
from engine.contract.pack import Pack
from engine.contract.ports import LlmClient, MemoryEntry, MemorySystem, Ports
from engine.contract.result import ToolCall
from engine.contract.scheduler import JobAction, JobInstant, JobRequest, JobState, ScheduledJob, Scheduler
from engine.contract.spaces import narrowed, sees
from engine.contract.turn import Turn
from engine.dispatch.bind import ContextBinder
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.agent.scripted_model import fails, says, serving
from tests.dispatch.pipeline_fixture import open_pipeline
from tests.skills.parts import NoSandbox

HOUSEHOLD = MemoryEntry("1", "The spare key is under the pot.", "shared:household")
DIARY = MemoryEntry("2", "A secret.", "private:ada")


class Shelf:
    """A memory system without access control."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.kept = [HOUSEHOLD, DIARY]

    async def recall(self, query: str, limit: int = 8) -> Sequence[MemoryEntry]:
        return self.kept[:limit]

    async def remember(self, text: str, space: str) -> str:
        self.kept.append(MemoryEntry(str(len(self.kept) + 1), text, space))
        return self.kept[-1].id

    async def forget(self, memory_id: str, space: str) -> bool:
        before = len(self.kept)
        self.kept = [each for each in self.kept if (each.id, each.space) != (memory_id, space)]
        return len(self.kept) < before


class Oracle:
    def __init__(self, turn: Turn) -> None:
        self.turn = turn

    async def complete(self, prompt: str, *, system: str = "", max_tokens: int | None = None) -> str:
        return f"{self.turn.user} asked: {prompt}"


class Diary:
    """A scheduler that only remembers whose it is."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn

    async def create(self, request: JobRequest) -> ScheduledJob:
        now = datetime(2026, 3, 11, tzinfo=UTC)
        return ScheduledJob(f"{self.turn.user}/1", self.turn.user, self.turn.agent, request, "", JobState.ACTIVE, now)

    async def jobs(self) -> Sequence[ScheduledJob]:
        return []

    async def job(self, job_id: str) -> ScheduledJob:
        raise NotImplementedError

    async def pause(self, job_id: str) -> ScheduledJob:
        raise NotImplementedError

    async def resume(self, job_id: str) -> ScheduledJob:
        raise NotImplementedError

    async def run_now(self, job_id: str) -> JobInstant:
        raise NotImplementedError

    async def delete(self, job_id: str) -> None:
        raise NotImplementedError

    async def history(self, job_id: str, limit: int = 20) -> Sequence[JobInstant]:
        return []


SHELVES: list[Shelf] = []


def shelf(turn: Turn) -> MemorySystem:
    SHELVES.append(Shelf(turn))
    return SHELVES[-1]


PORTS = Ports(memory_system=shelf, llm_client=Oracle, scheduler=Diary)


@tool()
async def ask(ctx: CallContext, action: str) -> Any:
    """Use a port."""
    match action:
        case "recall":
            assert ctx.memory_system is not None
            return [each.text for each in await ctx.memory_system.recall("key")]
        case "remember":
            assert ctx.memory_system is not None
            return await ctx.memory_system.remember("x", "private:ada")
        case "forget":
            assert ctx.memory_system is not None
            return await ctx.memory_system.forget("2", "private:ada")
        case "complete":
            assert ctx.llm_client is not None
            return await ctx.llm_client.complete("Why?")
        case "schedule":
            assert ctx.scheduler is not None
            return (await ctx.scheduler.create(JobRequest("a", "every 15m", JobAction("tool", "ask")))).id
    return [str(ctx.sandbox_dir), ctx.memory_system, ctx.llm_client, ctx.scheduler]


def bind(h: Any) -> None:
    """Replace the ports of the calls of a pipeline."""
    h.pipeline._bind = ContextBinder(NoSandbox(), h.workspace, h.pipeline._clock, ports=PORTS)


@pytest.mark.spec("CALL-2")
async def test_a_call_is_bound_to_the_ports_of_its_turn(tmp_path: Path) -> None:
    async with open_pipeline(tmp_path, [ask]) as h:
        bind(h)
        as_ada = Turn(user="ada")
        outputs = [
            (await h.pipeline.call(ToolCall("ask", {"action": each}), as_ada)).output
            for each in ("complete", "schedule")
        ]
        assert outputs == ["ada asked: Why?", "ada/1"]
        assert (await h.pipeline.call(ToolCall("ask", {"action": "recall"}), as_ada)).output == [
            HOUSEHOLD.text,
            DIARY.text,
        ]
        assert SHELVES[-1].turn.user == "ada"


@pytest.mark.spec("CALL-2")
async def test_an_unimplemented_port_is_none_and_the_sandbox_dir_is_the_workspace(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, sources=[StaticSource("mine", [ask])], packs=False, environ={}) as engine:
        found = await engine.call("ask", {"action": "nothing"})
    assert found.output == [str(tmp_path / "workspace"), None, None, None]


@pytest.mark.spec("REG-7")
async def test_an_agent_can_neither_read_nor_change_memory_outside_its_spaces(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, packs=False, environ={}) as engine:
        planner = {"spec_id": "agent://planner@deviceA", "memory_spaces": ["shared:*"]}
        await engine.registries.register_agent(planner)
        turn = await engine.turn_of("agent://planner@deviceA", Turn(user="ada"))
    assert turn.memory_spaces == ("shared:*",)
    async with open_pipeline(tmp_path / "workspace", [ask]) as h:
        bind(h)
        assert (await h.pipeline.call(ToolCall("ask", {"action": "recall"}), turn)).output == [HOUSEHOLD.text]
        for action in ("remember", "forget"):
            refused = await h.pipeline.call(ToolCall("ask", {"action": action}), turn)
            assert refused.failure is not None
            assert refused.failure.reason == "denied"
            assert SHELVES[-1].kept == [HOUSEHOLD, DIARY]


@pytest.mark.spec("CALL-2")
async def test_the_first_pack_that_implements_a_port_wins() -> None:
    async with AsyncExitStack() as stack:
        opened = OpenedPacks()
        first, second = Ports(llm_client=Oracle), Ports(memory_system=shelf, llm_client=lambda turn: 1 / 0)  # type: ignore[return-value, arg-type]
        for ports in (first, second):
            await opened.add(Pack(ports=ports), stack)
        assert opened.ports == Ports(memory_system=shelf, llm_client=Oracle)


def test_the_fake_ports_match_the_protocols() -> None:
    ports: tuple[MemorySystem, LlmClient, Scheduler] = (Shelf(Turn()), Oracle(Turn()), Diary(Turn()))
    assert len(ports) == 3


GLOBS = some.none() | some.lists(some.text("ab*?[]:", max_size=4), max_size=3).map(tuple)


@pytest.mark.spec("REG-7")
@given(one=GLOBS, other=GLOBS, space=some.text("ab:", max_size=5))
def test_narrowed_globs_match_only_what_both_match(
    one: tuple[str, ...] | None, other: tuple[str, ...] | None, space: str
) -> None:
    both = narrowed(one, other)
    if sees(both, space):
        assert sees(one, space)
        assert sees(other, space)
    assert narrowed(both, other) is not None or (one is None and other is None)


@pytest.mark.spec("REG-7")
def test_limiting_a_turn_twice_changes_nothing() -> None:
    from engine.contract.agent import AgentSpec

    agent = AgentSpec("a", memory_spaces=("shared:*", "private:a"))
    once = turn_of(agent, Turn(memory_spaces=("shared:household", "private:*")))
    assert once.memory_spaces == ("shared:household", "private:a")
    assert turn_of(agent, once).memory_spaces == once.memory_spaces
    assert turn_of(AgentSpec("b")).memory_spaces == ()


@tool()
async def ask_model(ctx: CallContext, question: str) -> str:
    """Ask the chat model."""
    assert ctx.llm_client is not None
    return await ctx.llm_client.complete(question, system="Be brief.", max_tokens=50)


@pytest.mark.slow
@pytest.mark.spec("CALL-2")
async def test_tools_can_ask_the_configured_chat_model(tmp_path: Path) -> None:
    async with serving(says("Paris."), fails(400)) as model:
        settings = Settings(model=ModelSettings(name="scripted", base_url=model.base_url))
        source = StaticSource("test", [ask_model])
        async with Engine.open(
            tmp_path, settings=settings, sources=[source], sandbox=NoSandbox(), packs=False
        ) as engine:
            told = await engine.call("ask_model", {"question": "Capital of France?"})
            refused = await engine.call("ask_model", {"question": "Capital of Spain?"})
        body = model.requests[0]
    assert told.output == "Paris."
    assert "The model failed" in refused.error
    assert [each["role"] for each in body["messages"]] == ["system", "user"]
    assert body.get("max_completion_tokens", body.get("max_tokens")) == 50

"""`Engine` opens, lists and calls tools, and closes what it opened."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.app import packs as packs_module
from engine.app.packs import OpenedPacks
from engine.app.plugins import COMMANDS, SANDBOXES, TOOL_SOURCES, find, named
from engine.app.services import Services
from engine.app.settings import Settings
from engine.contract.context import CallContext
from engine.contract.failure import ConfigError, FailureClass
from engine.contract.pack import Pack
from engine.contract.result import ToolContext
from engine.contract.spec import Annotations, Tag
from engine.contract.turn import Turn
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from sandbox.contract import SandboxError
from tests.app.pack import source

REPOSITORY = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def opened(home: Path, **options: Any) -> AsyncIterator[Engine]:
    async with Engine.open(home, **{"sources": [source()], "packs": False, "environ": {}} | options) as engine:
        yield engine


@pytest.mark.slow
def test_importing_the_engine_package_loads_no_other_package() -> None:
    program = "import sys, engine, engine.contract.spec; print([m for m in sys.modules if m.startswith('engine.app')])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
    assert Engine.__module__ == "engine.app.engine"


@pytest.mark.spec("FACE-4", "CALL-1")
async def test_a_tool_is_called_by_name_and_returns_one_result(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        result = await engine.call("double", {"x": 21})
    assert (result.success, result.output) == (True, 42)
    assert result.audit.tool == "double"


@tool(tag=Tag("NOTE", r"\[(\w+)\] (.+)", ("topic", "text"), "NOTE: [home] feed the cat"))
async def note(ctx: CallContext, topic: str, text: str) -> dict[str, Any]:
    """Keep a note."""
    assert ctx.tool_context is not None
    assert (ctx.user, ctx.user_message, ctx.confidence) == ("ada", "remember the cat", 0.5)
    assert (ctx.raw_arg, ctx.chat_id, ctx.kb_context) == (f"[{topic}] {text}", "7", "cats eat")
    return {"topic": topic, "text": text, "tag": asdict(ctx.tool_context)}


@pytest.mark.spec("TAG-2", "TAG-3")
async def test_tagged_lines_call_tools_with_the_context_of_the_message(tmp_path: Path) -> None:
    context = ToolContext(user_message="remember the cat", chat_id="7", kb_context="cats eat", confidence=0.5)
    async with opened(tmp_path, sources=[StaticSource("notes", [note])]) as engine:
        answered = await engine.answer_tags("Sure.\nNOTE: [home] feed it\nNOTE: whatever", Turn(user="ada"), context)
        assert answered.display == "Sure.\nNOTE: whatever"
        ((call, result),) = answered.calls
        assert call.name == "note"
        assert result.output["topic"] == "home"
        assert result.output["text"] == "feed it"
        assert result.output["tag"] == {
            "raw_arg": "[home] feed it",
            "user_message": "remember the cat",
            "user": "ada",
            "chat_id": "7",
            "kb_context": "cats eat",
            "confidence": 0.5,
        }
        assert not (await engine.call("note", {"topic": "home", "text": "no tag"})).success


@pytest.mark.spec("TAG-1")
def test_an_invalid_tag_pattern_is_refused_when_the_tool_is_defined() -> None:
    with pytest.raises(TypeError, match="not valid RE2"):

        @tool(tag=Tag("X", "("))
        async def broken(raw_arg: str) -> str:
            """Break."""
            return raw_arg


@pytest.mark.spec("FACE-4", "CALL-2")
async def test_available_tools_are_bound_callables(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        bound = await engine.get_available_tools(Turn())
        assert (await bound["double"](x=4)).output == 8
        assert (await bound["write_note"](text="hello")).side_effects == ("created:note.txt",)
        assert (engine.services.home.workspace / "note.txt").read_text() == "hello"


@pytest.mark.slow
@pytest.mark.spec("FACE-4", "BOX-1")
async def test_the_sandbox_of_the_engine_runs_code(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        result = await engine.call("run_box", {"code": "6 * 7"})
    assert result.output == {"end": "ok", "value": 42}


@pytest.mark.spec("LIST-0", "LIST-6")
async def test_tools_that_are_not_configured_are_left_out_with_the_reason(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        names = [spec.name for spec in await engine.get_active_tool_definitions(Turn())]
        dropped = {each.name: each.reason for each in (await engine.list_tools()).dropped}
    assert names == sorted(names)
    assert "unreachable" not in names
    assert "a_moon_base" in dropped["unreachable"]
    assert "vision" in dropped["look"]


@pytest.mark.spec("LIST-2")
async def test_a_vision_model_makes_vision_tools_available(tmp_path: Path) -> None:
    settings = Settings.model_validate({"model": {"name": "m", "base_url": "http://127.0.0.1:9", "sees": True}})
    async with opened(tmp_path, settings=settings) as engine:
        assert "look" in [spec.name for spec in await engine.get_active_tool_definitions(Turn())]
        assert (await engine.call("look", {})).output == "seen"


async def test_the_same_inputs_give_the_same_list(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        assert await engine.get_active_tool_definitions(Turn()) == await engine.get_active_tool_definitions(Turn())


@pytest.mark.spec("FAIL-5")
async def test_failures_are_stored(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await engine.call("double", {"x": "many"})
    async with opened(tmp_path) as engine:
        assert engine.failures.recent(1)[0]["tool"] == "double"


@pytest.mark.spec("BOX-2")
async def test_without_a_sandbox_the_engine_lists_tools_and_refuses_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> Any:
        raise SandboxError("user namespaces are forbidden here.", remedy="Run sysctl x=1.")

    point = EntryPoint("namespace", "tests.app.test_engine:nothing", SANDBOXES)
    monkeypatch.setattr("engine.app.sandboxes.named", lambda *_: point)
    monkeypatch.setattr(EntryPoint, "load", lambda _: refuse)
    async with opened(tmp_path) as engine:
        listed = await engine.list_tools()
        result = await engine.call("run_box", {"code": "1"})
    assert "run_box" in [each.name for each in listed.dropped]
    assert result.success is False
    assert "user namespaces are forbidden" in result.error


async def test_a_damaged_database_is_reported_in_one_line_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "records.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(ConfigError, match=r"records\.db.*damaged") as caught:
        async with opened(tmp_path):
            pass
    assert "\n" not in str(caught.value)
    assert (tmp_path / "records.db").read_bytes() == b"this is no database" * 100


@pytest.mark.slow
async def test_cancelling_a_call_cancels_the_tool(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        task = asyncio.create_task(engine.call("run_box", {"code": "while True: pass"}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_own_entry_points_are_found_in_a_checkout() -> None:
    names = [point.name for point in find(TOOL_SOURCES)]
    own = ["builtin", "database", "memory", "projects", "schedule", "self_play", "skills", "swarm", "web"]
    assert names[: len(own)] == own
    assert "skills" in [point.name for point in find(COMMANDS)]
    assert "namespace" in [point.name for point in find(SANDBOXES)]


@pytest.mark.spec("FACE-11")
def test_an_own_entry_point_is_found_without_reading_other_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    foreign_point = EntryPoint("foreign", "tests.app.test_engine:nothing", SANDBOXES)
    looked_up: list[str] = []

    def entry_points(*, group: str, name: str) -> list[EntryPoint]:
        looked_up.append(name)
        return [each for each in [foreign_point] if (each.group, each.name) == (group, name)]

    monkeypatch.setattr("engine.app.plugins.entry_points", entry_points)
    own = named(SANDBOXES, "namespace")
    assert own is not None
    assert own.value.startswith("sandbox.namespace.")
    assert looked_up == []
    assert named(SANDBOXES, "foreign") == foreign_point
    assert named(SANDBOXES, "nowhere") is None


@tool(category="test", annotations=Annotations(read_only=True))
async def foreign(ctx: CallContext) -> str:
    """A tool of a third-party pack."""
    return "hello from a pack"


@tool(category="test", name="double", annotations=Annotations(read_only=True))
async def clashing(ctx: CallContext) -> str:
    """Have a name that is already taken."""
    return "mine"


closed: list[str] = []


async def good_pack(services: Services) -> Pack:
    async def close() -> None:
        closed.append("good")

    return Pack(sources=(StaticSource("foreign", [foreign]),), aclose=close)


async def clashing_pack(services: Services) -> Pack:
    async def close() -> None:
        closed.append("clashing")

    return Pack(sources=(StaticSource("clashing", [clashing]),), aclose=close)


async def raising_pack(services: Services) -> Pack:
    raise RuntimeError("no licence")


async def wrong_pack(services: Services) -> Any:
    return "not a pack"


def points(*names: str) -> Sequence[EntryPoint]:
    return [EntryPoint(name, f"tests.app.test_engine:{name}", TOOL_SOURCES) for name in names]


async def test_a_third_party_pack_is_opened_through_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed.clear()
    monkeypatch.setattr(packs_module, "find", lambda _: points("good_pack"))
    async with opened(tmp_path, packs=True) as engine:
        assert (await engine.call("foreign", {})).output == "hello from a pack"
        assert closed == []
    assert closed == ["good"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raising_pack", "no licence"),
        ("wrong_pack", "returned str"),
        ("clashing_pack", "'double'"),
        ("missing_pack", "missing_pack"),
    ],
)
async def test_a_broken_pack_is_left_out_with_a_warning_and_the_rest_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, reason: str
) -> None:
    monkeypatch.setattr(packs_module, "find", lambda _: points(name, "good_pack"))
    with caplog.at_level(logging.WARNING):
        async with opened(tmp_path, packs=True) as engine:
            assert (await engine.call("double", {"x": 1})).output == 2
            assert (await engine.call("foreign", {})).success
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "knackbox.packs"]
    assert name in warning
    assert reason in warning
    assert "skipped" in warning


async def test_static_names_are_known_to_packs(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        assert "double" in engine.services.static_names()


async def test_a_name_claimed_twice_by_given_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="double"):
        async with opened(tmp_path, sources=[source(), StaticSource("other", [clashing])]):
            pass


def test_no_source_is_added_if_a_name_is_taken() -> None:
    packs = OpenedPacks()
    packs.join([source()])
    with pytest.raises(ConfigError):
        packs.join([StaticSource("other", [clashing])])
    assert [each.name for each in packs.registry.sources] == ["test"]


@pytest.mark.spec("CALL-3")
async def test_wrong_arguments_are_diagnostic(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        result = await engine.call("double", {"x": "many"})
    assert result.failure is not None
    assert result.failure.failure_class is FailureClass.DIAGNOSTIC

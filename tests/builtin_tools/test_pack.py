"""The pack of built-in tools: its tools, its configuration, and how the engine finds and runs it."""

from pathlib import Path
from typing import Any

import pytest

from builtin_tools.pack import TOOLS, BuiltinSettings
from engine.app.engine import Engine
from engine.app.pack_settings import pack_settings
from engine.app.settings import Settings
from engine.contract.failure import ConfigError
from engine.contract.turn import Turn
from engine.registry.decorate import BlockingFunctionTool, FunctionTool
from tests.builtin_tools.http_server import reply, serving

ALWAYS = [
    "abort_attempt",
    "compose_skill",
    "create_skill",
    "execute",
    "file_system",
    "manage_skills",
    "replan",
    "scratchpad",
    "system_utility",
]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.spec.name)
def test_every_parameter_of_every_tool_is_described_to_the_model(tool: FunctionTool | BlockingFunctionTool) -> None:
    spec = tool.spec
    assert len(spec.description) < 1600
    assert "Args:" not in spec.description
    for name, schema in spec.parameters["properties"].items():
        assert schema.get("description"), f"{spec.name}.{name}"


@pytest.mark.spec("LIST-1", "LIST-2")
async def test_the_engine_offers_the_built_in_tools_except_those_that_need_a_missing_client(tmp_path: Path) -> None:
    async with Engine.open(home=tmp_path, environ={}) as engine:
        listed = [spec.name for spec in await engine.get_active_tool_definitions(Turn())]
    assert [name for name in listed if name in ALWAYS] == ALWAYS
    assert not {"vision_analysis", "image_generation"} & set(listed)


@pytest.mark.spec("LIST-2")
async def test_the_image_tools_are_listed_when_their_clients_are_configured(tmp_path: Path) -> None:
    endpoint = {"name": "m", "base_url": "http://127.0.0.1:9/v1"}
    settings = Settings.model_validate({"model": {**endpoint, "sees": True}, "image": endpoint})
    async with Engine.open(home=tmp_path, settings=settings) as engine:
        listed = {spec.name for spec in await engine.get_active_tool_definitions(Turn(features=engine.features))}
    assert {"vision_analysis", "image_generation"} <= listed


@pytest.mark.spec("CALL-2", "TOOL-2")
async def test_the_built_in_tools_work_together_through_the_engine(tmp_path: Path) -> None:
    settings = Settings.model_validate({"packs": {"builtin": {"download_allow": ["127.0.0.0/8"]}}})
    async with Engine.open(home=tmp_path, settings=settings) as engine:
        with serving({"/n.txt": lambda handler, _: reply(handler, 200, b"20 22")}) as server:
            got = await engine.call("file_system", {"action": "download", "url": server.url("/n.txt")})
        summed = await engine.call(
            "execute", {"language": "python", "code": "sum(map(int, open('n.txt').read().split()))"}
        )
        noted = await engine.call("scratchpad", {"action": "set", "key": "sum", "value": summed.text})
        health = await engine.call("system_utility", {"action": "health"})
    assert (got.success, got.text) == (True, "Downloaded 5 bytes (no media type given) to n.txt.")
    assert (summed.output["value"], summed.text) == (42, "42")
    assert noted.side_effects == ("noted:sum",)
    assert health.output["healthy"], health.text


@pytest.mark.spec("FAIL-2")
async def test_a_download_from_a_server_that_is_busy_once_is_retried(tmp_path: Path) -> None:
    answers = [(503, b""), (200, b"there")]
    settings = Settings.model_validate({"packs": {"builtin": {"download_allow": ["127.0.0.1"]}}})
    with serving({"/a": lambda handler, _: reply(handler, *answers.pop(0))}) as server:
        async with Engine.open(home=tmp_path, settings=settings) as engine:
            result = await engine.call("file_system", {"action": "download", "url": server.url("/a")})
    assert (result.success, result.audit.attempts) == (True, 2)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"download_alow": []}, "download_alow"),
        ({"download_max_bytes": 0}, "download_max_bytes"),
        ({"download_allow": "x"}, "download_allow"),
        (["x"], "packs.builtin"),
    ],
)
def test_the_error_for_a_wrong_setting_is_one_line_with_the_known_settings(table: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pack_settings("builtin", table, BuiltinSettings)
    message = str(caught.value)
    assert expected in message
    assert "download_max_bytes" in message
    assert "\n" not in message

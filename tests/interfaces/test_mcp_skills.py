"""`knackbox mcp` with the included packs, while the command line uses the same home (STATE-1)."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import ToolListChangedNotification

from tests.eventually import eventually
from tests.interfaces.cli import REPOSITORY, run_as_process
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS

DEADLINE_S = 100

SKILL = {
    "name": "shout",
    "description": "Say a text loudly: in capitals, with an exclamation mark.",
    "code": 'def shout(text: str) -> str:\n    """Say it loudly.\n\n    Args:\n        text: What to say.\n    """\n'
    '    return text.upper() + "!"\n',
    "tests": "from shout import shout\n\ndef test_capitals():\n    assert shout('ab') == 'AB!'\n"
    "    assert shout('') == '!'\n    assert shout('a B') == 'A B!'\n",
}


@pytest.mark.spec("FACE-2", "STATE-1", "SKILL-1", "SKILL-11")
async def test_a_skill_learned_or_deleted_by_another_process_is_announced_listed_and_callable(tmp_path: Path) -> None:
    notified = asyncio.Event()

    async def note(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            notified.set()

    async def elsewhere(tool: str, arguments: dict[str, str]) -> None:
        notified.clear()
        home = str(tmp_path)
        done = await asyncio.to_thread(run_as_process, "--home", home, "call", tool, "--args", json.dumps(arguments))
        assert done.code == 0, done.err
        await notified.wait()

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "engine.interfaces.cli.main", "--home", str(tmp_path), "mcp"],
        cwd=str(REPOSITORY),
        env={**os.environ, **ENVIRON_WITHOUT_MUTANTS},
    )
    async with asyncio.timeout(DEADLINE_S), Client(server, mode="legacy", message_handler=note) as client:
        assert "shout" not in [tool.name for tool in (await client.list_tools()).tools]
        await elsewhere("create_skill", SKILL)
        assert "shout" in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("shout", {"text": "hello"})
        assert "HELLO!" in str(result.content)
        await elsewhere("manage_skills", {"action": "delete", "name": "shout"})
        assert "shout" not in [tool.name for tool in (await client.list_tools()).tools]
        assert (await client.call_tool("shout", {"text": "hello"})).is_error


@pytest.mark.spec("REG-9", "REG-8")
async def test_registry_changes_by_another_process_are_announced_but_calls_are_not(tmp_path: Path) -> None:
    notified: list[object] = []
    environ = {**os.environ, "KNACKBOX_REGISTRY_ADAPTER_PREFIXES": "tests.registry"}
    envelope = tmp_path / "add.json"
    envelope.write_text(json.dumps({"spec_id": "hello", "adapter_path": "tests.registry.adapters_here:whose"}))

    async def note(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            notified.append(message)

    async def elsewhere(*words: str) -> None:
        before = len(notified)
        done = await asyncio.to_thread(run_as_process, "--home", str(tmp_path / "home"), *words, environ=environ)
        assert done.code == 0, done.err
        await eventually(lambda: len(notified) > before)

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "engine.interfaces.cli.main", "--home", str(tmp_path / "home"), "mcp"],
        cwd=str(REPOSITORY),
        env=environ,
    )
    async with asyncio.timeout(DEADLINE_S), Client(server, mode="legacy", message_handler=note) as client:
        assert not (await client.call_tool("replan", {"reason": "x", "new_plan": "y"})).is_error
        await elsewhere("registry", "register", str(envelope))
        assert "hello" in [tool.name for tool in (await client.list_tools()).tools]
        assert "hello main" in str((await client.call_tool("hello", {})).content)
        await elsewhere("registry", "disable", "hello")
        assert "hello" not in [tool.name for tool in (await client.list_tools()).tools]
        assert len(notified) == 2

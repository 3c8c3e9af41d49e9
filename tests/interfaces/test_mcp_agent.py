"""`knackbox mcp` with a registered agent or an allow-list. (FACE-2, REG-7)"""

import asyncio
import json
import threading
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from engine.interfaces.mcp.progress import ProgressRelay
from tests.interfaces.cli import REPOSITORY, command, here, run_as_process

DEADLINE_S = 60
AGENT = {"spec_id": "bookkeeper", "allowed_tools": ["system_utility"]}


@pytest.mark.spec("FACE-2", "REG-7", "ACCESS-3")
async def test_a_client_gets_only_the_tools_of_the_agent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent.json").write_text(json.dumps(AGENT))
    home = str(tmp_path / "home")
    words = command("--home", home, "mcp", "--agent", "bookkeeper", "--allow-list", "general_purpose")
    await asyncio.to_thread(here, capfd, "--home", home, "registry", "register", str(tmp_path / "agent.json"))
    server = StdioServerParameters(command=words[0], args=words[1:], cwd=str(REPOSITORY))
    async with asyncio.timeout(DEADLINE_S), Client(server) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["system_utility"]
        refused = await client.call_tool("replan", {"reason": "x", "new_plan": "y"})
        assert refused.is_error
        assert isinstance(refused.content[0], TextContent)
        assert "allow-list" in refused.content[0].text


@pytest.mark.spec("FACE-1", "FACE-2")
@pytest.mark.parametrize("option", ["--agent", "--allow-list"])
def test_an_unknown_agent_or_allow_list_is_reported_in_one_line(tmp_path: Path, option: str) -> None:
    ended = run_as_process("--home", str(tmp_path), "mcp", option, "nobody")
    assert ended.code == 2
    assert ended.out == ""
    (line,) = ended.err.splitlines()
    assert "'nobody'" in line


@pytest.mark.spec("FACE-2", "CALL-11")
async def test_progress_from_a_thread_of_a_tool_arrives_while_it_runs() -> None:
    sent: list[tuple[float, float | None, str | None]] = []
    arrived = threading.Event()

    async def send(progress: float, total: float | None, message: str | None) -> None:
        sent.append((progress, total, message))
        arrived.set()

    relay = ProgressRelay(send)

    def report() -> bool:
        relay("half", 0.5)
        return arrived.wait(DEADLINE_S)

    forwarding = asyncio.ensure_future(relay.forward())
    assert await asyncio.to_thread(report)
    relay("last")
    relay.finish()
    await forwarding
    assert [message for _, _, message in sent] == ["half", "last"]
    assert sent[0][:2] == (0.5, 1.0)
    assert sent[1][0] > 0.5

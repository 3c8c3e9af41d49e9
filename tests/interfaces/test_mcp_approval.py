"""The user of an MCP client must approve calls, with old and new protocols. The default answer is no."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

pytestmark = [pytest.mark.spec("ACCESS-8")]
REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 60


class Person:
    """A user with a preset answer, who records the questions."""

    def __init__(self) -> None:
        self.answer: Any = ElicitResult(action="accept", content={"approve": True})
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@asynccontextmanager
async def connected(home: Path, mode: str, person: Person | None) -> AsyncIterator[Client]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tests.interfaces.approval_server_script", str(home)],
        cwd=str(REPOSITORY),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    async with asyncio.timeout(DEADLINE_S), Client(server, mode=mode, elicitation_callback=person) as client:
        yield client


def text(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_user_of_the_client_is_asked_and_decides(tmp_path: Path, mode: str) -> None:
    person = Person()
    async with connected(tmp_path, mode, person) as client:
        assert text(await client.call_tool("pay", {"amount": 5})) == "paid 5"
        assert "Run pay? Pay an amount." in person.asked[0]
        assert '"amount": 5' in person.asked[0]
        for answer in (
            ElicitResult(action="decline"),
            ElicitResult(action="cancel"),
            ElicitResult(action="accept", content={"approve": False}),
            ElicitResult(action="accept", content={}),
        ):
            person.answer = answer
            refused = await client.call_tool("pay", {"amount": 6})
            assert refused.is_error
            assert "the user said no" in text(refused)
        assert text(await client.call_tool("paid", {})) == "[5]"
        assert len(person.asked) == 5


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_without_elicitation_runs_nothing_that_needs_approval(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, mode, None) as client:
        result = await client.call_tool("pay", {"amount": 5})
        assert result.is_error
        assert "cannot ask its user" in text(result)
        assert text(await client.call_tool("paid", {})) == "[]"

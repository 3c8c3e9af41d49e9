"""The user of an MCP client is asked for the results that the tests of a new skill do not prove."""

import ast
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitResult, TextContent

from tests.interfaces.cli import REPOSITORY
from tests.skills.parts import proposal

pytestmark = pytest.mark.spec("GATE-7")
DEADLINE_S = 100
OFFERED = proposal(body="return 100 if number > 100 else number + 1")
ARGUMENTS = {
    "name": OFFERED.name,
    "description": "Adds one to a whole number, but never gives more than 100.",
    "code": OFFERED.code.replace("number > 100", "number > 99"),
    "tests": OFFERED.tests,
}


class Author:
    """A user who answers each question of a form, and records the forms."""

    def __init__(self, answer: Callable[[int], str], action: Any = "accept") -> None:
        self.answer, self.action = answer, action
        self.forms: list[ElicitRequestFormParams] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.forms.append(params)
        if self.action != "accept":
            return ElicitResult(action=self.action)
        return ElicitResult(
            action="accept", content={name: self.answer(number) for name, number in asked(params).items()}
        )


def asked(form: ElicitRequestFormParams) -> dict[str, int]:
    """The argument of each call in a form, by the name of its field."""
    fields = form.requested_schema["properties"]
    return {
        name: ast.literal_eval(each["title"].removeprefix("add_one(number=").removesuffix(")"))
        for name, each in fields.items()
    }


def right(number: int) -> str:
    return str(min(number + 1, 100))


@asynccontextmanager
async def connected(home: Path, mode: str, author: Author | None) -> AsyncIterator[Client]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "engine.interfaces.cli.main", "--home", str(home), "mcp"],
        cwd=str(REPOSITORY),
        env={name: value for name, value in os.environ.items() if not name.startswith("KNACKBOX_")},
    )
    async with asyncio.timeout(DEADLINE_S), Client(server, mode=mode, elicitation_callback=author) as client:
        yield client


def text(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_answers_in_the_client_admit_the_skill_within_the_same_call(tmp_path: Path, mode: str) -> None:
    author = Author(right)
    async with connected(tmp_path, mode, author) as client:
        result = await client.call_tool("create_skill", ARGUMENTS)
        assert not result.is_error, text(result)
        shown = text(await client.call_tool("manage_skills", {"action": "show", "name": "add_one"}))
    assert "never gives more than 100" in author.forms[0].message
    assert 1 <= len(asked(author.forms[0])) <= 5
    assert all("required" not in form.requested_schema for form in author.forms)
    assert "without an answer" not in shown


async def test_a_form_shows_the_arguments_and_never_what_the_code_returns(tmp_path: Path) -> None:
    author = Author(right, "decline")
    secret = {**ARGUMENTS, "code": ARGUMENTS["code"].replace("else number + 1", "else number * 7919 - 7917")}
    secret["tests"] = "from add_one import add_one\n\n\ndef test_adds():\n    assert add_one(1) == 2\n"
    async with connected(tmp_path, "legacy", author) as client:
        result = await client.call_tool("create_skill", secret)
    (form,) = author.forms
    results = {n * 7919 - 7917 for n in asked(form).values() if n not in (0, 1) and n <= 99}
    assert results
    assert not any(str(each) in json.dumps(form.model_dump(mode="json")) + text(result) for each in results)


@pytest.mark.parametrize("action", ["decline", "cancel", None])
async def test_without_answers_the_agent_gets_the_questions(tmp_path: Path, action: str | None) -> None:
    author = Author(right, action) if action else None
    async with connected(tmp_path, "legacy", author) as client:
        result = await client.call_tool("create_skill", ARGUMENTS)
    assert result.is_error
    assert '{"arguments": {"number": ' in text(result)
    assert "A person was asked" not in text(result)
    assert author is None or len(author.forms) == 1  # who declines is not asked again


async def test_a_wrong_answer_is_disputed_and_the_agent_learns_what_was_answered(tmp_path: Path) -> None:
    author = Author(lambda number: "-77")
    async with connected(tmp_path, "legacy", author) as client:
        result = await client.call_tool("create_skill", ARGUMENTS)
    assert result.is_error
    assert len(author.forms) == 1
    assert "Which of the two is right?" in text(result)
    assert "A person was asked and gave these answers" in text(result)
    assert '"result": -77' in text(result)

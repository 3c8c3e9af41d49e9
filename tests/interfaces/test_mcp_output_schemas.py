"""Results of tools with an output schema match it. The official SDK's client, which validates them, calls the tools."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from tests.builtin_tools.web.corpus.loopback import reaching
from tests.builtin_tools.web.corpus.server import serving_corpus
from tests.builtin_tools.web.corpus.web import CorpusWeb
from tests.interfaces.cli import REPOSITORY
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS

pytestmark = pytest.mark.spec("FACE-22")
DEADLINE_S = 200
NOT_HERE = {"vision_analysis", "image_generation", "self_play", "self_play_loop"}  # they need a model client

CODE = '''def {name}(text: str) -> {returns}:
    """Count letters.

    Args:
        text: What to look at.
    """
    {body}
'''


def skill(name: str, returns: str, body: str, tests: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"Counts the letters of a text, as {name.replace('_', ' ')} does.",
        "code": CODE.format(name=name, returns=returns, body=body),
        "tests": f"from {name} import {name}\n\ndef test_counts():\n{tests}",
    }


LETTERS = skill(
    "letters_of",
    "dict[str, int]",
    "return {each: text.count(each) for each in text}",
    "    assert letters_of('aba') == {'a': 2, 'b': 1}\n    assert letters_of('') == {}\n",
)
NUMBER = skill(
    "number_in",
    "int",
    "import json\n    return json.loads(text)",
    "    assert number_in('3') == 3\n    assert number_in(' -20 ') == -20\n",
)
PIPELINE = {
    "name": "letters_twice",
    "description": "Counts the letters of a text written twice.",
    "pipeline": {
        "steps": [
            {
                "name": "counted",
                "call": "letters_of",
                "inputs": {"text": {"text": [{"from": "/arguments/text"}, {"from": "/arguments/text"}]}},
            }
        ],
        "output": {"from": "/counted"},
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    "cases": [{"arguments": {"text": "ab"}, "expect": {"a": 2, "b": 2}}],
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("execute", {"language": "python", "code": "print('hi'); float('nan')"}),
    ("execute", {"language": "bash", "code": "echo hi"}),
    ("execute", {"language": "python", "code": "x = 1\nx", "stateful": True}),
    ("kernels", {"action": "list"}),
    ("kernels", {"action": "variables"}),
    ("kernels", {"action": "export"}),
    ("kernels", {"action": "stop"}),
    ("kernels", {"action": "list"}),
    ("file_system", {"action": "write", "path": "a/b.txt", "content": "hello"}),
    ("file_system", {"action": "read", "path": "a/b.txt"}),
    ("file_system", {"action": "list"}),
    ("file_system", {"action": "find", "pattern": "*.txt"}),
    ("file_system", {"action": "search", "pattern": "hell"}),
    ("knowledge_base", {"action": "insert_fact", "text": "Ada lives in Oslo."}),
    ("knowledge_base", {"action": "ingest_document", "source": "a/b.txt"}),
    ("knowledge_base", {"action": "list_docs"}),
    ("knowledge_base", {"action": "reset_all", "space": "personal:nothing"}),
    ("recall", {"query": "Where does Ada live?"}),
    ("learn_skill", {"mistake": "Read the file as text.", "fix": "Read the file as bytes."}),
    ("list_lessons", {}),
    ("update_profile", {"key": "city", "value": "Oslo"}),
    ("dream_mode", {}),
    ("dream_mode", {"action": "apply"}),
    ("file_system", {"action": "move", "path": "a/b.txt", "destination": "c.txt"}),
    ("file_system", {"action": "delete", "path": "c.txt"}),
    ("scratchpad", {"action": "set", "key": "k", "value": "v"}),
    ("scratchpad", {"action": "get", "key": "k"}),
    ("scratchpad", {"action": "list"}),
    ("knowledge_base", {"action": "insert_fact", "text": "Ada moved to Oslo in 2020."}),
    ("knowledge_base", {"action": "list_docs"}),
    ("knowledge_base", {"action": "forget", "query": "Oslo"}),
    ("recall", {"query": "Where does Ada live?"}),
    ("scratchpad", {"action": "clear"}),
    ("system_utility", {"action": "diagnostics"}),
    ("system_utility", {"action": "health"}),
    ("system_utility", {"action": "location", "latitude": 59.9, "longitude": 10.7}),
    (
        "manage_tasks",
        {
            "action": "create",
            "name": "a",
            "schedule": "every day at 9",
            "tool": "scratchpad",
            "arguments": {"action": "list"},
        },
    ),
    ("manage_tasks", {"action": "list"}),
    ("manage_projects", {"action": "create", "name": "a", "state": "active", "tasks": [{"title": "t", "needs": []}]}),
    ("manage_projects", {"action": "list"}),
    ("manage_projects", {"action": "show"}),
    ("web_search", {"query": "sandbox"}),
    ("web_search", {"query": "sandbox", "cached_only": True}),
    ("fetch_page", {"url": "http://knackbox.test/architecture.html", "links": True}),
    ("deep_research", {"question": "Which protections does the sandbox have?", "pages": 3}),
    ("fact_check", {"claim": "Code in the sandbox has no network.", "pages": 3}),
    ("stop_self_play", {}),
    ("replan", {"reason": "r", "new_plan": "p"}),
    ("abort_attempt", {"reason": "r"}),
    ("create_skill", LETTERS),
    ("create_skill", NUMBER),
    ("compose_skill", PIPELINE),
    ("letters_of", {"text": "aba"}),
    ("number_in", {"text": "3"}),
    ("letters_twice", {"text": "a"}),
    ("manage_skills", {"action": "list"}),
    ("manage_skills", {"action": "show", "name": "letters_of"}),
    ("manage_skills", {"action": "stats"}),
    ("manage_skills", {"action": "history", "name": "letters_of"}),
    ("manage_skills", {"action": "suggest"}),
    ("manage_skills", {"action": "disable", "name": "letters_of"}),
    ("manage_skills", {"action": "enable", "name": "letters_of"}),
    ("search_tools", {"query": "letters"}),
    ("describe_tool", {"name": "letters_of"}),
]


@pytest.fixture
def web() -> Iterator[int]:
    with serving_corpus(CorpusWeb.small()) as port:
        yield port


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_results_of_tools_with_an_output_schema_match_it(tmp_path: Path, web: int, mode: str) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "engine.interfaces.cli.main", "--home", str(tmp_path), "mcp"],
        cwd=str(REPOSITORY),
        env={**os.environ, **ENVIRON_WITHOUT_MUTANTS},
    )
    found: dict[str, CallToolResult] = {}
    (tmp_path / "config.toml").write_text(reaching(web))
    async with asyncio.timeout(DEADLINE_S), Client(server, mode=mode) as client:
        for name, arguments in CALLS:
            found[name] = await client.call_tool(name, arguments)  # raises if the content does not match the schema
            assert not found[name].is_error, (name, arguments, text(found[name]))
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        broken = await client.call_tool("number_in", {"text": "[3]"})
    typed = {name for name, tool in listed.items() if tool.output_schema is not None}
    assert typed - NOT_HERE <= found.keys()
    assert {
        "execute",
        "file_system",
        "scratchpad",
        "system_utility",
        "kernels",
        "create_skill",
        "manage_skills",
    } <= typed
    assert listed["letters_of"].output_schema == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert found["letters_of"].structured_content == {"a": 2, "b": 1}
    assert found["number_in"].structured_content == {"result": 3}
    described = found["describe_tool"].structured_content
    assert described is not None
    assert described["returns"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert broken.is_error
    assert "does not fit its return annotation" in text(broken)
    assert broken.meta is not None
    assert broken.meta["knackbox/reason"] == "output_misfit"


async def test_an_output_that_does_not_match_its_schema_is_an_error(tmp_path: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tests.interfaces.mcp_server_script", str(tmp_path)],
        cwd=str(REPOSITORY),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    async with asyncio.timeout(DEADLINE_S), Client(server) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("misleading", {})
        huge = await client.call_tool("huge", {})
        sound = await client.call_tool("double", {"x": 4})
    assert listed["misleading"].output_schema is not None
    assert result.is_error
    assert result.structured_content is None
    assert '{"a":"one"}' in text(result)
    assert '`a`: given "one", expected integer' in text(result)
    assert huge.is_error
    assert "was omitted" in text(huge)
    assert sound.structured_content == {"result": 8}


def text(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))

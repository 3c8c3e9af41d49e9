"""The definitions of tools that the model client sends are those that its library would make, but made once."""

import copy
from collections.abc import Sequence
from typing import Any, Literal

import httpx2
import pytest
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from builtin_tools.memory.knowledge_base import knowledge_base
from builtin_tools.pack import TOOLS
from builtin_tools.swarm.delegate_to_swarm import delegate_to_swarm
from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.model import ModelClient, build
from engine.agent.clients.tool_definitions import ToolDefinitions
from engine.contract.spec import ToolSpec
from engine.formats.names import ProviderNames
from tests.agent.scripted_model import says, serving

pytestmark = pytest.mark.spec("LOOP-1")

SPECS = [each.spec for each in (*TOOLS, knowledge_base, delegate_to_swarm)]
RECURSIVE = ToolSpec(
    name="walk",
    description="Walk a tree.",
    parameters={
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree"}},
        "$defs": {
            "Tree": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
        },
    },
)


def made_by_the_library(model: Model, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    names = ProviderNames(tool.name for tool in tools)
    plain = [
        ToolDefinition(
            name=names.to_provider(tool.name),
            description=tool.description,
            parameters_json_schema=copy.deepcopy(dict(tool.parameters)),
            strict=False,
        )
        for tool in tools
    ]
    _, parameters = model.prepare_request(None, ModelRequestParameters(function_tools=plain))
    return [each.parameters_json_schema for each in parameters.function_tools]


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
async def test_the_schemas_are_those_of_the_library_and_adapted_once(
    provider: Literal["openai", "anthropic", "google"],
) -> None:
    endpoint = ModelEndpoint(provider, "any", "http://127.0.0.1:9", api_key="k")
    tools = [*SPECS, RECURSIVE]
    names = ProviderNames(tool.name for tool in tools)
    async with httpx2.AsyncClient(timeout=60) as http:
        expected = made_by_the_library(build(endpoint, http), tools)
        model = build(endpoint, http)
        definitions = ToolDefinitions(model)
        first = [definitions.of(tool, names) for tool in tools]
        _, sent = model.prepare_request(None, ModelRequestParameters(function_tools=first))
        assert [each.parameters_json_schema for each in sent.function_tools] == expected
        again = [definitions.of(tool, names) for tool in tools]
        if provider != "google":  # Gemini takes plain JSON Schema
            assert all(
                one.parameters_json_schema is two.parameters_json_schema for one, two in zip(first, again, strict=True)
            )


async def test_tools_that_share_a_name_but_not_a_schema_are_told_apart() -> None:
    changed = ToolSpec(
        name="walk", description="Walk.", parameters={"type": "object", "properties": {"far": {"type": "integer"}}}
    )
    async with (
        serving(says("1"), says("2")) as server,
        ModelClient(ModelEndpoint("openai", "any", server.base_url)) as client,
    ):
        for tool in (RECURSIVE, changed):
            await client.ask([ModelRequest(parts=[UserPromptPart("hi")])], tools=[tool])
    sent = [body["tools"][0]["function"]["parameters"]["properties"] for body in server.requests]
    assert [list(each) for each in sent] == [["tree"], ["far"]]

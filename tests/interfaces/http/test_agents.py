"""A token of a registered agent can call only the tools that the agent may call. (REG-7, FACE-3)"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from engine import Engine
from engine.interfaces.http.tokens import Caller
from tests.eventually import eventually
from tests.interfaces.http.servers import Server

pytestmark = [pytest.mark.spec("REG-7", "FACE-3"), pytest.mark.asyncio(loop_scope="module")]

KEEPER = Caller("keeper", "kim", "owner", agent="bookkeeper")
AGENT = {"spec_id": "bookkeeper", "allowed_tools": ["whoami", "dangerous"], "policy_overrides": {"band_floor": "RED"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(server: Server) -> AsyncIterator[Engine]:
    """Another engine on the server's home, as opened by `knackbox registry`."""
    async with Engine.open(server.home.root, packs=False, environ={}) as engine:
        yield engine


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _forgotten(operator: Engine) -> AsyncIterator[None]:
    """Remove the agent after each test."""
    yield
    await asyncio.to_thread(operator.registries.agents.remove, "bookkeeper")


async def called(client: httpx.AsyncClient, name: str, **arguments: Any) -> dict[str, Any]:
    return (await client.post("/api/call", json={"name": name, "arguments": arguments})).json()


async def until_offered(client: httpx.AsyncClient, names: set[str]) -> None:
    async def offered() -> bool:
        return {each["name"] for each in (await client.get("/api/tools")).json()["tools"]} == names

    await eventually(offered)


async def test_a_token_of_an_agent_lists_and_calls_only_the_agents_tools(server: Server, operator: Engine) -> None:
    async with server.client(KEEPER) as client:

        async def unrestricted() -> bool:  # soon, if another test has just removed the agent
            return bool((await called(client, "echo", value=1))["success"])

        await eventually(unrestricted)
        await operator.registries.register_agent(AGENT)
        await until_offered(client, {"whoami"})
        assert (await called(client, "whoami"))["output"]["band"] == "RED"
        for name, why in (("echo", "allow-list"), ("dangerous", "band is RED")):
            arguments = {"value": 1} if name == "echo" else {}
            refused = await called(client, name, **arguments)
            assert refused["failure"]["failure_class"] == "FATAL"
            assert why in refused["error"]
            assert (await client.get(f"/api/tools/{name}")).status_code == 404
            body = {"tool_name": f"knackbox.{name}", "arguments": arguments}
            assert why in (await client.post("/execute", json=body)).json()["error"]
        assert (await client.get("/api/tools/whoami")).json()["annotations"]["read_only"]
        assert [each["name"] for each in (await client.get("/manifest")).json()["tools"]] == ["knackbox.whoami"]


async def test_a_token_of_a_disabled_agent_can_call_nothing(server: Server, operator: Engine) -> None:
    await operator.registries.register_agent(AGENT)
    await asyncio.to_thread(operator.registries.agents.set_disabled, "bookkeeper", True)
    async with server.client(KEEPER) as client:
        await until_offered(client, set())
        refused = await called(client, "whoami")
        assert refused["failure"]["failure_class"] == "FATAL"
        assert "agent bookkeeper has been disabled since" in refused["error"]
        assert (await client.get("/manifest")).json()["tools"] == []

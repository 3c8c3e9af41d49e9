"""Other ways of calling one Python function as a tool, in this process: `knackbox[bench]` brings them.

Each calls the same function with the same argument through what its agents call tools with: look-up, validation of
the arguments, the call, a result for the model. None of them has deadlines, policies, retries or audit rows on.

Each is imported where it is opened: it may not be installed, and takes up to a second.
"""

import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

REMEDY = "not installed (pip install 'knackbox[bench]')"

Call = Callable[[], Awaitable[Any]]
Opened = AsyncIterator[Call]


@dataclass(frozen=True, slots=True)
class Framework:
    """One way. package: that must be there. open: gives the call, and closes what it needed."""

    name: str
    package: str
    open: Callable[[], Any]

    @property
    def absent(self) -> str:
        """Why it is not here and how to get it; "" when it is."""
        return "" if importlib.util.find_spec(self.package) else REMEDY


async def noop(number: int = 0) -> int:
    """Give the number back."""
    return number


@asynccontextmanager
async def pydantic_ai() -> Opened:
    """The tool manager that its agents call tools with."""
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    manager = await ToolManager(FunctionToolset([noop])).for_run_step(context)

    async def call() -> bool:
        return bool(await manager.handle_call(ToolCallPart("noop", {"number": 1}, "1")) == 1)

    yield call


@asynccontextmanager
async def fastmcp_server() -> Opened:
    """The server's own call, without a client."""
    from fastmcp import FastMCP

    server = FastMCP("bench")
    server.tool(noop)

    async def call() -> bool:
        return bool((await server.call_tool("noop", {"number": 1})).structured_content)

    yield call


@asynccontextmanager
async def fastmcp_client() -> Opened:
    """Its client on the server, both in this process."""
    from fastmcp import Client, FastMCP

    server = FastMCP("bench")
    server.tool(noop)
    async with Client(server) as client:

        async def call() -> bool:
            return bool((await client.call_tool("noop", {"number": 1})).data == 1)

        yield call


@asynccontextmanager
async def langgraph() -> Opened:
    """Its ToolNode alone, without the graph around it."""
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.prebuilt import ToolNode
    from langgraph.runtime import Runtime

    node = ToolNode([tool(noop)])
    asked = AIMessage("", tool_calls=[{"name": "noop", "args": {"number": 1}, "id": "1", "type": "tool_call"}])
    config: Any = {"configurable": {"__pregel_runtime": Runtime()}}

    async def call() -> bool:
        return bool((await node.ainvoke({"messages": [asked]}, config))["messages"][-1].content == "1")

    yield call


FRAMEWORKS = (
    Framework("pydantic-ai: tool manager", "pydantic_ai", pydantic_ai),
    Framework("LangGraph: ToolNode", "langgraph", langgraph),
    Framework("FastMCP: server's call_tool", "fastmcp", fastmcp_server),
    Framework("FastMCP: client in process", "fastmcp", fastmcp_client),
)

"""Other frameworks that call a Python function as a tool in this process. `knackbox[bench]` installs them.

Each calls the same function with the same argument through the code with which its agents call tools: look-up,
validation of the arguments, the call, and a result for the model. None of them uses deadlines, policies, retries or
audit rows.

Each framework is imported in the function that opens it, because it is optional and may not be installed, and because
its import takes up to a second and must not happen when other benchmarks run. The import is not part of the measured
time.
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
    """One framework of the comparison.

    Attributes:
        package: The module that it needs.
        open: An async context manager that yields the call to time.
    """

    name: str
    package: str
    open: Callable[[], Any]

    @property
    def absent(self) -> str:
        """The reason why it is not available, with how to install it; "" if it is available."""
        return "" if importlib.util.find_spec(self.package) else REMEDY


async def noop(number: int = 0) -> int:
    """Return the number."""
    return number


@asynccontextmanager
async def pydantic_ai() -> Opened:
    """Open the tool manager with which pydantic-ai's agents call tools."""
    from pydantic_ai import RunContext  # optional and slow to import; see the module's docstring
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
    """Open a FastMCP server that is called without a client."""
    from fastmcp import FastMCP  # optional and slow to import

    server = FastMCP("bench")
    server.tool(noop)

    async def call() -> bool:
        return bool((await server.call_tool("noop", {"number": 1})).structured_content)

    yield call


@asynccontextmanager
async def fastmcp_client() -> Opened:
    """Open a FastMCP client and server, both in this process."""
    from fastmcp import Client, FastMCP  # optional and slow to import

    server = FastMCP("bench")
    server.tool(noop)
    async with Client(server) as client:

        async def call() -> bool:
            return bool((await client.call_tool("noop", {"number": 1})).data == 1)

        yield call


@asynccontextmanager
async def langgraph() -> Opened:
    """Open LangGraph's ToolNode, without a graph."""
    from langchain_core.messages import AIMessage  # optional and slow to import
    from langchain_core.tools import tool
    from langgraph.prebuilt import ToolNode
    from langgraph.runtime import Runtime

    node = ToolNode([tool(noop)])
    message = AIMessage("", tool_calls=[{"name": "noop", "args": {"number": 1}, "id": "1", "type": "tool_call"}])
    config: Any = {"configurable": {"__pregel_runtime": Runtime()}}

    async def call() -> bool:
        return bool((await node.ainvoke({"messages": [message]}, config))["messages"][-1].content == "1")

    yield call


FRAMEWORKS = (
    Framework("pydantic-ai: tool manager", "pydantic_ai", pydantic_ai),
    Framework("LangGraph: ToolNode", "langgraph", langgraph),
    Framework("FastMCP: server's call_tool", "fastmcp", fastmcp_server),
    Framework("FastMCP: client in process", "fastmcp", fastmcp_client),
)

"""Creates call contexts, and functions that call tools in a turn, for code that calls tools by name."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from engine.contract.context import CallContext, Clock, ImageClient, VisionClient, Workspace, no_progress
from engine.contract.ports import NO_PORTS, BoundedMemory, Ports
from engine.contract.result import ToolCall, ToolResult
from engine.contract.source import Tool
from engine.contract.turn import Turn
from engine.stores.child_workspace import child_workspace
from engine.stores.workspace import FolderWorkspace
from sandbox.agent_sandbox import AgentSandbox
from sandbox.contract import Sandbox

BoundTool = Callable[..., Awaitable[ToolResult]]


class BindContext(Protocol):
    """Creates the context of one call."""

    def __call__(self, turn: Turn, call_id: str, progress: Callable[..., None], /) -> CallContext: ...


class CallRunner(Protocol):
    """Runs a call. `engine.dispatch.pipeline.Pipeline` implements it."""

    async def call(self, call: ToolCall, turn: Turn, *, progress: Callable[..., None] = no_progress) -> ToolResult: ...


@dataclass(frozen=True, slots=True)
class ContextBinder:
    """Creates call contexts from the engine's components."""

    sandbox: Sandbox
    workspace: Workspace
    clock: Clock
    vision: VisionClient | None = None
    images: Mapping[str, ImageClient] = field(default_factory=dict)
    services: Mapping[type, Any] = field(default_factory=dict)
    ports: Ports = NO_PORTS
    own_workspaces: Path | None = None  # the folder with the workspaces of child runs

    def __call__(self, turn: Turn, call_id: str, progress: Callable[..., None], /) -> CallContext:
        ctx = CallContext(
            turn,
            call_id,
            AgentSandbox(self.sandbox, turn.agent_key),
            self.workspace if not turn.workspace else self._own_workspace(turn.workspace),
            self.clock,
            self.vision,
            self.images,
            self.services,
            progress,
        )
        return ctx if self.ports is NO_PORTS else self._with_ports(ctx)

    def _own_workspace(self, name: str) -> Workspace:
        if self.own_workspaces is None:
            raise LookupError(f"This engine has no workspaces for child runs, so not that of {name}.")
        return FolderWorkspace(child_workspace(self.own_workspaces, name))

    def _with_ports(self, ctx: CallContext) -> CallContext:
        turn, ports = ctx.turn, self.ports
        memory = ports.memory_system(turn) if ports.memory_system is not None else None
        if memory is not None and turn.memory_spaces is not None:
            memory = BoundedMemory(memory, turn.memory_spaces)
        return replace(
            ctx,
            memory_system=memory,
            llm_client=ports.llm_client(turn) if ports.llm_client is not None else None,
            scheduler=ports.scheduler(turn) if ports.scheduler is not None else None,
        )


def bind_tools(tools: Sequence[Tool], calls: CallRunner, turn: Turn) -> dict[str, BoundTool]:
    """Map each tool's name to an async function that calls the tool in this turn.

    The function takes the tool's arguments as keyword arguments and returns a `ToolResult`. The call goes through the
    whole pipeline, with validation and deadlines, so the function does not raise if the tool fails. Its ``__name__``
    and ``__doc__`` are the tool's name and description.
    """
    return {tool.spec.name: _bound(tool, calls, turn) for tool in tools}


def _bound(tool: Tool, calls: CallRunner, turn: Turn) -> BoundTool:
    name = tool.spec.name

    async def bound(**arguments: Any) -> ToolResult:
        return await calls.call(ToolCall(name, arguments), turn)

    bound.__name__ = bound.__qualname__ = name
    bound.__doc__ = tool.spec.description
    return bound

"""`ToolHost`: what the loop needs of an engine."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from engine.contract.context import no_progress
from engine.contract.result import ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn


class ToolHost(Protocol):
    """Lists the tools of a turn and calls them."""

    async def get_active_tool_definitions(self, context: Turn, query: str | None = None) -> list[ToolSpec]: ...

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        turn: Turn | None = None,
        *,
        progress: Callable[..., None] = no_progress,
    ) -> ToolResult:
        """Never raises for what a tool did. progress: told ``(message, fraction)`` while it runs."""
        ...

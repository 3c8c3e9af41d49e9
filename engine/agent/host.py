"""`ToolHost`: the part of an engine that the loop uses."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from engine.contract.context import no_progress
from engine.contract.prompt_block import PromptBlocks
from engine.contract.result import ToolResult
from engine.contract.run_summary import RunSummary
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.in_flight import BeforeRun


class ToolHost(Protocol):
    """Lists and calls the tools of a turn, and adds texts to the turn's prompt."""

    async def prompt_blocks(self, context: Turn | None, message: str) -> PromptBlocks:
        """Return the texts to add to the prompt for a user message."""
        ...

    async def run_ended(self, context: Turn | None, summary: RunSummary) -> None:
        """Pass the summary of a run to the packs. This method does not raise."""
        ...

    async def get_active_tool_definitions(self, context: Turn, query: str | None = None) -> list[ToolSpec]: ...

    async def can_repeat(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether an interrupted call may be made again with the same id, although it has effects."""
        ...

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        turn: Turn | None = None,
        *,
        call_id: str = "",
        progress: Callable[..., None] = no_progress,
        before_run: BeforeRun | None = None,
    ) -> ToolResult:
        """Call one tool. Failures of the tool are returned, not raised.

        Args:
            name: The name of the tool.
            arguments: Its arguments.
            turn: The turn that the call belongs to.
            call_id: The id of the call; generated if empty.
            progress: Called with ``(message, fraction)`` while the tool runs.
            before_run: Awaited when the call has been admitted and is about to run. If it fails, the call does not run.
        """
        ...

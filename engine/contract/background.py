"""Background services: what a pack does while an engine serves, such as running jobs by the clock.

An interface that stays open runs them (`engine.app.background`). Commands that end at once do not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.contract.result import ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn


@dataclass(frozen=True, slots=True)
class MessageReport:
    """How the loop ended its work on a message.

    Attributes:
        answered: Whether the model answered.
        finish: Why the run ended, such as ``"answer"`` or ``"tokens"``.
        answer: The answer, or what was achieved without one.
        tokens: Input and output tokens.
        calls: The number of tool calls.
    """

    answered: bool
    finish: str
    answer: str
    tokens: int = 0
    calls: int = 0


class BackgroundHost(Protocol):
    """The part of an open engine that background services use. Each turn gets the limits that apply at that moment."""

    async def call(self, name: str, arguments: Mapping[str, Any], turn: Turn, *, call_id: str = "") -> ToolResult:
        """Call one tool. Failures of the tool are returned, not raised."""
        ...

    async def describe_tool(self, name: str, turn: Turn) -> ToolSpec:
        """Return the spec of a tool.

        Raises:
            ToolFailure: There is no tool of this name that the turn may call.
        """
        ...

    async def send(
        self, message: str, turn: Turn, *, most_tokens: int = 0, most_s: float = 0.0, model: str = ""
    ) -> MessageReport:
        """Let the configured model work on a message.

        Args:
            message: The message.
            turn: The user and agent.
            most_tokens: The limit of the tokens, in addition to the configured one; 0 for none.
            most_s: The limit of the time in seconds, in addition to the configured one; 0 for none.
            model: The name of another model of the configured provider; "" for the configured one.

        Raises:
            ConfigError: No model is configured, or the agent cannot be used.
        """
        ...


class BackgroundService(Protocol):
    """Does something while an engine is open."""

    async def run(self, host: BackgroundHost) -> None:
        """Run until cancelled. Finish or record work in progress before the cancellation is raised."""
        ...

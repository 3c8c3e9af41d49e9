"""`Guard`: decides whether a call may run, and is notified when it ends. Policies, breakers and limits are guards."""

from collections.abc import Awaitable
from dataclasses import dataclass

from engine.contract.failure import Failure
from engine.contract.result import ToolCall
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn


@dataclass(frozen=True, slots=True)
class GuardRequest:
    """The call that a guard decides about. Its tool has been found.

    Attributes:
        ts: Start time, UTC, ISO 8601.
    """

    call: ToolCall
    call_id: str
    ts: str
    spec: ToolSpec
    turn: Turn


class Guard:
    """Base class of guards. Guards are asked in the pipeline's order until one refuses.

    Subclasses override the methods they need. The methods must not block: the whole pipeline uses only about 25
    microseconds of event-loop time per call.
    """

    def concerns(self, spec: ToolSpec) -> bool:  # noqa: ARG002 -- for subclasses
        """Return whether the guard checks calls of this tool. The answer is cached and must depend only on the spec."""
        return True

    def admit(self, request: GuardRequest) -> Awaitable[None] | None:  # noqa: ARG002 -- for subclasses
        """Decide whether the call may run. Returning None, or an awaitable that completes, admits it.

        Raises:
            ToolFailure: The call is refused.
        """
        return None

    def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:
        """Handle the end of a call that this guard admitted. This method must not raise.

        Args:
            request: The call.
            failure: The failure as first classified, before the retry logic adjusted it; None for a success.
            ran: Whether the tool's code began to run.
        """

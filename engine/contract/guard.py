"""`Guard`: what may keep a call from running, and hears how it ended. Policies, breakers and limits are guards."""

from collections.abc import Awaitable
from dataclasses import dataclass

from engine.contract.failure import Failure
from engine.contract.result import ToolCall
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn


@dataclass(frozen=True, slots=True)
class GuardRequest:
    """A call whose tool is known. ts: when it began, UTC, ISO 8601."""

    call: ToolCall
    call_id: str
    ts: str
    spec: ToolSpec
    turn: Turn


class Guard:
    """Asked before a call runs, in the order of the pipeline's guards; one that refuses spares the others the question.

    A guard overrides what it cares for. Neither method may block: in the event loop, 25 microseconds are shared by the
    whole pipeline.
    """

    def admit(self, request: GuardRequest) -> Awaitable[None] | None:  # noqa: ARG002 -- for those who override it
        """Let it run by returning, or when what was returned has been awaited. Raises ToolFailure to refuse it."""
        return None

    def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:
        """A call this guard admitted has ended. failure: as it was classified, before anything was made of it; None
        for a success. ran: whether the tool was entered. Must not raise."""

"""`abort_attempt`: ends an attempt without a result and reports what was learned."""

from typing import Literal

from typing_extensions import TypedDict

from engine.contract.context import Produced
from engine.contract.spec import Annotations
from engine.registry.decorate import tool


class AbortOutput(TypedDict):
    """The output that signals the end of the attempt."""

    signal: Literal["abort_attempt"]
    reason: str
    learned: str


@tool(category="control", annotations=Annotations(read_only=True, idempotent=True), tier="low", timeout_s=5)
async def abort_attempt(reason: str, learned: str = "") -> Produced[AbortOutput]:
    """End this attempt without a result and tell the user why.

    Use it when the task cannot be done with the available tools, or needs a decision that only the user can make.
    Do not use it while another approach could work: call `replan` instead.

    Args:
        reason: What prevents a result, in one or two sentences that the user understands.
        learned: What you found out, including partial results.
    """
    return Produced(
        value={"signal": "abort_attempt", "reason": reason, "learned": learned},
        message=f"Attempt ended: {reason}" + (f"\nLearned: {learned}" if learned else ""),
    )

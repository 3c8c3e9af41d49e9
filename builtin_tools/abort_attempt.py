"""`abort_attempt`: the model ends the attempt honestly, and says what was learned."""

from typing import Literal

from typing_extensions import TypedDict

from engine.contract.context import Produced
from engine.contract.spec import Annotations
from engine.registry.decorate import tool


class Aborted(TypedDict):
    """The signal to end."""

    signal: Literal["abort_attempt"]
    reason: str
    learned: str


@tool(category="control", annotations=Annotations(read_only=True, idempotent=True), tier="low", timeout_s=5)
async def abort_attempt(reason: str, learned: str = "") -> Produced[Aborted]:
    """End this attempt without a result, honestly.

    Use it when the task cannot be done with the tools you have, or needs a decision that only the user can take.
    Do not use it to avoid work: try `replan` first.

    Args:
        reason: What stands in the way, in one or two sentences the user understands.
        learned: What was found out on the way, partial results included.
    """
    return Produced(
        value={"signal": "abort_attempt", "reason": reason, "learned": learned},
        message=f"Attempt ended: {reason}" + (f"\nLearned: {learned}" if learned else ""),
    )

"""`replan`: the model gives up its present strategy and states the next one; the loop starts over from it."""

from typing import Literal

from typing_extensions import TypedDict

from engine.contract.context import Produced
from engine.contract.spec import Annotations
from engine.registry.decorate import tool


class ReplanOutput(TypedDict):
    """The signal to start over."""

    signal: Literal["replan"]
    reason: str
    new_plan: str


@tool(category="control", annotations=Annotations(read_only=True, idempotent=True), tier="low", timeout_s=5)
async def replan(reason: str, new_plan: str) -> Produced[ReplanOutput]:
    """Drop the present strategy and start over with another one.

    Use it after a FATAL failure, or when two attempts in a row have taught you nothing new. Results so far are kept.

    Args:
        reason: Why the present strategy cannot work, from what you saw.
        new_plan: The different steps you will take now.
    """
    return Produced(
        value={"signal": "replan", "reason": reason, "new_plan": new_plan},
        message=f"Strategy dropped: {reason}\nNew plan: {new_plan}\nCarry it out now, from its first step.",
    )

"""`replan`: abandons the current strategy and states a new one, with which the loop starts over."""

from typing import Literal

from typing_extensions import TypedDict

from engine.contract.context import Produced
from engine.contract.spec import Annotations
from engine.registry.decorate import tool


class ReplanOutput(TypedDict):
    """The output that makes the loop start over."""

    signal: Literal["replan"]
    reason: str
    new_plan: str


@tool(category="control", annotations=Annotations(read_only=True, idempotent=True), tier="low", timeout_s=5)
async def replan(reason: str, new_plan: str) -> Produced[ReplanOutput]:
    """Abandon the current strategy and start over with a different one.

    Use it after a FATAL failure, or when two attempts in a row gave no new information. Results so far are kept.
    Do not use it to repeat the same steps, or for a mistake that one corrected call repairs.

    Args:
        reason: Why the current strategy cannot work, based on the results you saw.
        new_plan: The different steps that you will take now.
    """
    return Produced(
        value={"signal": "replan", "reason": reason, "new_plan": new_plan},
        message=f"Strategy dropped: {reason}\nNew plan: {new_plan}\nCarry it out now, from its first step.",
    )

"""`People`: the gate and the approver of an engine."""

from dataclasses import dataclass

from engine.policy.approval import Approver
from engine.policy.gate import EvalGate


@dataclass(frozen=True, slots=True)
class People:
    """The gate and the approver that decide before a call runs.

    Attributes:
        gate: Evaluates calls of tools that require it. None admits all calls.
        approver: Asks a person. None refuses every call that needs approval.
    """

    gate: EvalGate | None = None
    approver: Approver | None = None

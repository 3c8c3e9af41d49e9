"""`People`: who is asked before a call runs."""

from dataclasses import dataclass

from engine.policy.approval import Approver
from engine.policy.gate import EvalGate


@dataclass(frozen=True, slots=True)
class People:
    """Who is asked before a call runs.

    gate: judges calls of tools that require it; None lets all run.
    approver: asks a person; None where nobody can be asked, so that what needs approval is refused.
    """

    gate: EvalGate | None = None
    approver: Approver | None = None

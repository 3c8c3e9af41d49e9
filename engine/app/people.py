"""`People`: whom an engine asks: the gate, the approver and whoever fills in forms."""

from dataclasses import dataclass

from engine.policy.approval import Approver
from engine.policy.forms import FormFiller
from engine.policy.gate import EvalGate


@dataclass(frozen=True, slots=True)
class People:
    """The gate and the approver that decide before a call runs, and whoever fills in forms.

    Attributes:
        gate: Evaluates calls of tools that require it. If None, these calls are admitted.
        approver: Asks a person. If None, every call that needs approval is refused.
        filler: Shows forms to a person. If None, no form is answered.
    """

    gate: EvalGate | None = None
    approver: Approver | None = None
    filler: FormFiller | None = None

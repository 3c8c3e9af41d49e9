"""`People`: the evaluation gate, the approver and the forms through which an engine asks for decisions."""

from dataclasses import dataclass

from engine.policy.approval import Approver
from engine.policy.forms import FormFiller
from engine.policy.gate import EvalGate


@dataclass(frozen=True, slots=True)
class People:
    """The gate and the approver that decide whether a call may run, and the filler that shows forms to a person.

    Attributes:
        gate: Evaluates calls of tools that require it. If None, these calls are admitted.
        approver: Asks a person for approval. If None, every call that needs approval is refused.
        filler: Shows forms to a person. If None, no form is answered.
    """

    gate: EvalGate | None = None
    approver: Approver | None = None
    filler: FormFiller | None = None

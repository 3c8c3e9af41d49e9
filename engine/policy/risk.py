"""Records how dangerous a call may be: its risk in the audit (ACCESS-9) and its annotations in the log (ACCESS-10).

Nothing in this module refuses a call.
"""

import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Literal

from engine.contract.guard import Guard, GuardRequest
from engine.contract.spec import ToolSpec

_log = logging.getLogger("knackbox.annotations")

Risk = Literal["LOW", "MEDIUM", "HIGH"]

# Key in `ToolSpec.meta`: the risk of certain values of arguments, such as {"action": {"delete": "HIGH"}}.
RISK_ARGUMENTS = "risk_arguments"

_ORDER: tuple[Risk, ...] = ("LOW", "MEDIUM", "HIGH")
_EFFECTS: Mapping[str, Risk] = {
    "filesystem_write": "MEDIUM",
    "network": "MEDIUM",
    "code_execution": "MEDIUM",
    "filesystem_delete": "HIGH",
    "payment": "HIGH",
    "message_sent": "HIGH",
}


def risk_of(spec: ToolSpec, arguments: Any) -> Risk:
    """Return the highest risk indicated by the tool (safety class, annotations, side effects) and the arguments."""
    hints = spec.annotations
    found = [spec.safety_class if spec.safety_class in _ORDER else "HIGH"]
    if hints.requires_confirmation:
        found.append("HIGH")
    elif hints.destructive:
        found.append("MEDIUM")
    found += map(_EFFECTS.__getitem__, _EFFECTS.keys() & spec.side_effects)
    if not isinstance(arguments, Mapping):  # not validated yet
        return max(found, key=_ORDER.index)
    for argument, risks in spec.meta.get(RISK_ARGUMENTS, {}).items():
        said = risks.get(str(arguments.get(argument)))
        if said in _ORDER:
            found.append(said)
    return max(found, key=_ORDER.index)


class AnnotationLog(Guard):
    """A guard that admits every call, and logs the tool's annotations unless the turn disables this.

    Nothing is logged unless the logger is enabled for INFO.
    """

    def admit(self, request: GuardRequest) -> None:
        """Log one line for the call."""
        if request.turn.log_tool_annotations and _log.isEnabledFor(logging.INFO):
            with contextlib.suppress(Exception):  # log handlers may be third-party code; they must not make a call fail
                _note(request)


def _note(request: GuardRequest) -> None:
    hints = request.spec.annotations
    _log.info(
        "call %s of %s by %s/%s: read_only=%s destructive=%s idempotent=%s requires_confirmation=%s",
        request.call_id,
        request.spec.name,
        request.turn.user,
        request.turn.agent,
        hints.read_only,
        hints.destructive,
        hints.idempotent,
        hints.requires_confirmation,
    )

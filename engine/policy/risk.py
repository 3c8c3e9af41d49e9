"""`risk_of`: how much a call may cost if it is a mistake; on every audit row (ACCESS-9). It decides nothing."""

from collections.abc import Mapping
from typing import Any, Literal

from engine.contract.spec import ToolSpec

Risk = Literal["LOW", "MEDIUM", "HIGH"]

# `ToolSpec.meta` key: argument -> value -> risk of a call with it, such as {"action": {"delete": "HIGH"}}.
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
    """The highest of what the tool's class, annotations, possible effects and this call's arguments say."""
    hints = spec.annotations
    found = [spec.safety_class if spec.safety_class in _ORDER else "HIGH"]
    if hints.requires_confirmation:
        found.append("HIGH")
    elif hints.destructive:
        found.append("MEDIUM")
    found += [_EFFECTS[effect] for effect in spec.side_effects if effect in _EFFECTS]
    if not isinstance(arguments, Mapping):  # nobody has looked at them yet
        return max(found, key=_ORDER.index)
    for argument, risks in spec.meta.get(RISK_ARGUMENTS, {}).items():
        said = risks.get(str(arguments.get(argument)))
        if said in _ORDER:
            found.append(said)
    return max(found, key=_ORDER.index)

"""`Access`: decides whether a tool may be called by an agent for a user (ACCESS-1, ACCESS-2, ACCESS-5)."""

from collections.abc import Mapping

from engine.contract.failure import FailureClass, refusal
from engine.contract.guard import Guard, GuardRequest
from engine.contract.spec import Band, ToolSpec
from engine.contract.turn import Turn

DENIED = "denied"  # `Failure.reason` of a denial

_LEVELS: Mapping[str, int] = {"guest": 0, "user": 1, "admin": 2, "owner": 3}
_LOWEST = _LEVELS["guest"]  # the rank of a user whose level is unknown
_HIGHEST = _LEVELS["owner"]  # the rank of a required level that is unknown
_SAFETY: Mapping[str, int] = {"LOW": 0, "MEDIUM": 1, "HIGH": 2}
_BANDS: Mapping[str, int] = {"GREEN": 2, "AMBER": 1, "RED": 0}  # the highest safety class that each band permits

# These are names of static tools, so no acquired tool can have them.
DISCOVERY_TOOLS = frozenset({"search_tools", "describe_tool", "execute_tool"})


def user_rank(level: str) -> int:
    """Return the rank of a user's level. An unknown level ranks lowest."""
    return _LEVELS.get(level, _LOWEST)


def tighter(one: Band, other: Band) -> Band:
    """Return the stricter of two bands. An unknown band is the strictest."""
    return min(one, other, key=lambda band: _BANDS.get(band, -1))


def no_module(name: str, turn: Turn) -> str:
    """Return why the tool's module is not among the turn's modules, or "" if it is among them (ACCESS-2)."""
    if turn.modules is None:
        return ""
    module, dot, _ = name.partition(".")
    return f"the module {module} is not available to this persona" if dot and module not in turn.modules else ""


def denial(name: str, reason: str) -> str:
    """Return the message that tells the caller about a denial."""
    return f"{name} may not be called: {reason}. Nothing was run."


def why_not(spec: ToolSpec, turn: Turn) -> str:
    """Return why the tool may not be called in this turn, or "" if it may. Modules are checked first (ACCESS-2)."""
    if turn.modules is not None and (missing := no_module(spec.name, turn)):
        return missing
    if turn.allowed is not None and not turn.allowed.permits(spec) and not _finds_others(spec, turn):
        return "it is not on this agent's allow-list"
    required = spec.required_permission
    if required != "guest" and _LEVELS.get(turn.permission, _LOWEST) < _LEVELS.get(required, _HIGHEST):
        return f"it requires the permission {required}, and the user has {turn.permission}"
    if spec.caps_required:
        lacking = [cap for cap in spec.caps_required if cap not in turn.caps]
        if lacking:
            return f"the agent does not hold the required caps: {', '.join(lacking)}"
    if turn.band != "GREEN" and _SAFETY.get(spec.safety_class, _SAFETY["HIGH"]) > _BANDS.get(turn.band, 0):
        return f"its safety class is {spec.safety_class}, and the band is {turn.band}"
    return ""


def _finds_others(spec: ToolSpec, turn: Turn) -> bool:
    """Return whether this is a discovery tool, in a turn that uses discovery.

    Such a tool need not be on the allow-list, because it finds and runs only tools that are allowed.
    """
    return turn.use_tool_search_flow and spec.name in DISCOVERY_TOOLS


class Access(Guard):
    """A guard that denies the calls for which `why_not` gives a reason. Lists of tools omit these tools, too."""

    def admit(self, request: GuardRequest) -> None:
        """Check that the call is allowed.

        Raises:
            ToolFailure: The call is denied (FATAL, because a denial must not be worked around).
        """
        reason = why_not(request.spec, request.turn)
        if reason:
            raise refusal(denial(request.spec.name, reason), DENIED, FailureClass.FATAL)

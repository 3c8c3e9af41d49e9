"""`Gate`: asks an evaluation function whether a call is good enough to run (ACCESS-7).

The gate protects quality, not safety. By default, if it fails or is too slow, the call runs and a warning is logged, so
that a broken gate does not stop all work. If the setting `on_gate_failure` is ``deny``, such a call is
refused.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from engine.contract.failure import REFUSED, ToolFailure
from engine.contract.guard import Guard, GuardRequest
from engine.contract.result import ToolContext
from engine.contract.spec import ToolSpec

_log = logging.getLogger("knackbox.policy")

WAIT_S = 2.0
OnGateFailure = Literal["allow", "deny"]
ToolDef = ToolSpec  # gates that were written for other frameworks use this name


@dataclass(frozen=True, slots=True)
class GateDecision:
    """The gate's decision on a call.

    Attributes:
        reason: Shown to the model when the call is refused.
    """

    approved: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GateContext(ToolContext):
    """What the gate learns of a call: a `ToolContext` that is filled in from the call and its turn, and the arguments.

    If the call was made with a response tag, `raw_arg` is the text after the tag's prefix. Otherwise, it is all
    arguments as JSON, or the argument itself if there is only one and it is a string.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    call_id: str = ""
    agent: str = ""


class EvalGate(Protocol):
    """Evaluates calls of tools with `requires_gate`."""

    async def check(self, tool: ToolDef, ctx: ToolContext) -> GateDecision:
        """Approve or refuse a call. `ctx` is a `GateContext`."""
        ...


class GateRefused(ToolFailure):
    """The gate refused the call, or failed while `on_gate_failure` is ``deny``.

    The text of this exception becomes the message of the call's result.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text, reason="gate_refused", may_have_started=False, end=REFUSED)


def context_of(request: GuardRequest) -> GateContext:
    """Create the context that the gate receives for a call."""
    call, turn = request.call, request.turn
    given = call.context or ToolContext()
    return GateContext(
        raw_arg=given.raw_arg or _as_text(call.arguments),
        user_message=given.user_message or turn.query or "",
        user=turn.user,
        chat_id=given.chat_id,
        kb_context=given.kb_context,
        confidence=given.confidence,
        arguments=call.arguments,
        call_id=request.call_id,
        agent=turn.agent,
    )


def _as_text(arguments: Mapping[str, Any]) -> str:
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return json.dumps(dict(arguments), ensure_ascii=False, default=repr)


class Gate(Guard):
    """A guard that asks an `EvalGate` about each call."""

    def __init__(self, gate: EvalGate, *, on_gate_failure: OnGateFailure = "allow", wait_s: float = WAIT_S) -> None:
        self._gate = gate
        self._on_failure = on_gate_failure
        self._wait_s = wait_s

    def concerns(self, spec: ToolSpec) -> bool:
        return spec.requires_gate

    async def admit(self, request: GuardRequest) -> None:
        """Ask the gate whether the call may run.

        Raises:
            ToolFailure: The gate refused the call (DIAGNOSTIC, with the gate's reason).
        """
        name = request.spec.name
        try:
            async with asyncio.timeout(self._wait_s) as deadline:
                decision = await self._gate.check(request.spec, context_of(request))
        except Exception as error:
            why = f"gave no answer within {self._wait_s:g} s" if deadline.expired() else f"failed: {error!r}"
            if self._on_failure == "deny":
                raise GateRefused(f"{name} was not run: the gate {why}.") from error
            _log.warning("The gate %s; %s (call %s) runs without it.", why, name, request.call_id)
            return
        if not decision.approved:
            raise GateRefused(decision.reason or f"{name} was refused by the gate, which gave no reason.")

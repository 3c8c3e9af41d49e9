"""`Gate`: asks an evaluation whether a tool's call is good enough to run (ACCESS-7).

It guards quality, not safety: one that fails or is slow must not take the product down, so the call runs then and a
warning is logged. Who wants it otherwise says `deny`.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from engine.contract.failure import REFUSED, ToolFailure
from engine.contract.guard import Guard, GuardRequest
from engine.contract.result import ToolContext
from engine.contract.spec import ToolSpec

_log = logging.getLogger("knackbox.policy")

WAIT_S = 2.0
OnGateFailure = Literal["allow", "deny"]
ToolDef = ToolSpec  # what gates that were written for other hosts call it


@dataclass(frozen=True, slots=True)
class GateDecision:
    """reason: what the model reads when it is refused."""

    approved: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GateContext(ToolContext):
    """What a gate is told of a call: the fields of a `ToolContext`, always filled in, and the call itself.

    raw_arg: for a call that was no line of text, its only argument if that is a text, else the arguments as JSON.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    call_id: str = ""
    agent: str = ""


class EvalGate(Protocol):
    """Something that judges calls of tools with `requires_gate`."""

    async def check(self, tool: ToolDef, ctx: ToolContext) -> GateDecision:
        """Approve or refuse a call. `ctx` is a `GateContext`."""
        ...


class GateRefused(ToolFailure):
    """The gate said no, or could not be asked where that counts as no. The text is also the result's message."""

    def __init__(self, text: str) -> None:
        super().__init__(text, reason="gate_refused", may_have_started=False, end=REFUSED)


def context_of(request: GuardRequest) -> GateContext:
    """What the gate is told of a call."""
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
    """A guard around an `EvalGate`."""

    def __init__(self, gate: EvalGate, *, on_gate_failure: OnGateFailure = "allow", wait_s: float = WAIT_S) -> None:
        self._gate = gate
        self._on_failure = on_gate_failure
        self._wait_s = wait_s

    def admit(self, request: GuardRequest) -> Awaitable[None] | None:
        """Raises ToolFailure, DIAGNOSTIC with the gate's own reason, when awaited."""
        return self._ask(request) if request.spec.requires_gate else None

    async def _ask(self, request: GuardRequest) -> None:
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

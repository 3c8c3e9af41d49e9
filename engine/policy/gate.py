"""`Gate`: asks an evaluation whether a tool's call is good enough to run (ACCESS-7).

It guards quality, not safety: one that fails or is slow must not take the product down, so the call runs then and a
warning is logged. Who wants it otherwise says `deny`.
"""

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.contract.failure import refusal
from engine.contract.guard import Guard, Request
from engine.contract.spec import ToolSpec

_log = logging.getLogger("knackbox.policy")

WAIT_S = 2.0
_REFUSED = "gate_refused"
OnGateFailure = Literal["allow", "deny"]


@dataclass(frozen=True, slots=True)
class GateDecision:
    """reason: what the model reads when it is refused."""

    approved: bool
    reason: str = ""


class EvalGate(Protocol):
    """Something that judges calls of tools with `requires_gate`."""

    async def check(self, tool: ToolSpec, ctx: Request) -> GateDecision: ...


class Gate(Guard):
    """A guard around an `EvalGate`."""

    def __init__(self, gate: EvalGate, *, on_gate_failure: OnGateFailure = "allow", wait_s: float = WAIT_S) -> None:
        self._gate = gate
        self._on_failure = on_gate_failure
        self._wait_s = wait_s

    def admit(self, request: Request) -> Awaitable[None] | None:
        """Raises ToolFailure, DIAGNOSTIC with the gate's own reason, when awaited."""
        return self._ask(request) if request.spec.requires_gate else None

    async def _ask(self, request: Request) -> None:
        name = request.spec.name
        try:
            async with asyncio.timeout(self._wait_s) as deadline:
                decision = await self._gate.check(request.spec, request)
        except Exception as error:
            why = f"gave no answer within {self._wait_s:g} s" if deadline.expired() else f"failed: {error!r}"
            if self._on_failure == "deny":
                raise refusal(f"{name} was not run: the gate {why}.", _REFUSED) from error
            _log.warning("The gate %s; %s (call %s) runs without it.", why, name, request.call_id)
            return
        if not decision.approved:
            raise refusal(decision.reason or f"{name} was refused by the gate, which gave no reason.", _REFUSED)

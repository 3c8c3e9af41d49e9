"""`ApprovalGuard`: a person's yes before something destructive runs (ACCESS-8). It fails closed.

The yes is for these arguments alone: it is bound to their digest, spent by one call, and void after a while.
"""

import asyncio
import json
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from engine.contract.canonical import digest
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.guard import Guard, GuardRequest
from engine.contract.spec import ToolSpec

EXPIRES_S = 300.0

# off: nobody is asked. confirmation: for tools with `requires_confirmation`. destructive: for destructive ones, too.
ApprovalMode = Literal["off", "confirmation", "destructive"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked. digest: of tool, version and arguments; the answer has to bring it back.

    expires_s: seconds in which an answer counts.
    """

    call_id: str
    user: str
    tool: ToolSpec
    arguments: Mapping[str, Any]
    digest: str
    expires_s: float

    def shown(self, most: int) -> str:
        """The arguments with every character of them visible, and at most so many: control characters would let a
        call show something else than it is."""
        given = json.dumps(self.arguments, ensure_ascii=True, indent=2)
        return given if len(given) <= most else f"{given[:most]}\n… {len(given) - most:,} characters more"


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """digest: of the request that is answered. by: who answered, as far as is known."""

    approved: bool
    digest: str
    reason: str = ""
    by: str = ""


class Approver(Protocol):
    """A way to ask a person: at a terminal, over MCP, over HTTP."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer: ...


class ApprovalGuard(Guard):
    """The guard; the last of them, so that nothing comes between the yes and the run."""

    def __init__(self, approver: Approver | None, mode: ApprovalMode, *, expires_s: float = EXPIRES_S) -> None:
        """approver: None where nobody can be asked, so that what needs a yes is refused."""
        self._approver = approver
        self._mode = mode
        self._expires_s = expires_s

    @property
    def can_ask(self) -> bool:
        """Whether there is anybody to ask."""
        return self._approver is not None

    def needed(self, spec: ToolSpec) -> bool:
        """Whether a person is asked about this tool."""
        if self._mode == "off":
            return False
        asked = spec.annotations.requires_confirmation
        return asked or (self._mode == "destructive" and spec.annotations.destructive)

    def admit(self, request: GuardRequest) -> Awaitable[None] | None:
        """Raises ToolFailure, FATAL, when awaited, unless a person said yes to exactly this call."""
        return self._ask(request) if self.needed(request.spec) else None

    async def _ask(self, request: GuardRequest) -> None:
        await self.confirm(request.spec, request.call.arguments, call_id=request.call_id, user=request.turn.user)

    async def confirm(self, spec: ToolSpec, arguments: Mapping[str, Any], *, call_id: str, user: str) -> str:
        """Ask about these arguments, whatever the mode, once; who said yes. For tools that find out what they are to do
        only when they run. Raises ToolFailure, FATAL, unless a person said yes to exactly this.
        """
        name = spec.name
        if self._approver is None:
            raise _refused(f"{name} needs a person's approval, and nobody can be asked here. Nothing was run.")
        expected = digest_of(spec, arguments)
        shown = json.loads(json.dumps(arguments, default=str))  # a copy: what was shown stays as it was
        question = ApprovalRequest(call_id, user, spec, shown, expected, self._expires_s)
        try:
            async with asyncio.timeout(self._expires_s) as deadline:
                answer = await self._approver.ask(question)
        except Exception as error:
            if deadline.expired():
                raise _refused(f"{name} was not run: nobody approved it within {self._expires_s:g} s.") from error
            said = " ".join(str(error).split())[:200] or type(error).__name__
            raise _refused(f"{name} was not run: asking for approval failed: {said}.") from error
        if not answer.approved:
            because = f": {answer.reason}" if answer.reason else "."
            raise _refused(f"{name} was not run: the user said no{because}")
        if answer.digest != expected or digest_of(spec, arguments) != expected:
            raise _refused(f"{name} was not run: what was approved is not what would run.")
        return answer.by or user


def digest_of(spec: ToolSpec, arguments: Mapping[str, Any]) -> str:
    """Of tool, version and arguments."""
    return digest([spec.name, spec.version, arguments])


def _refused(text: str) -> ToolFailure:
    return refusal(text, "not_approved", FailureClass.FATAL)

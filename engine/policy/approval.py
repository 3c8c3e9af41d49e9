"""`ApprovalGuard`: requires a person's approval before destructive calls (ACCESS-8). It fails closed.

An approval is bound to the digest of the arguments, is valid for one call, and expires.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from engine.contract.canonical import digest
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.guard import Guard, GuardRequest
from engine.contract.spec import ASKS_FOR_APPROVAL, Origin, ToolSpec
from engine.policy.granted_approvals import GrantedApprovals
from engine.policy.person_waits import PersonWaits

EXPIRES_S = 300.0
NOT_APPROVED = "not_approved"  # the reason of the failure of a call that was not approved
UNANSWERED = {"answered": False}  # the output of that failure if nobody could be asked, or nobody answered in time

# "off": never ask. "confirmation": ask for tools with `requires_confirmation`. "destructive": also ask for destructive
# tools.
ApprovalMode = Literal["off", "confirmation", "destructive"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request for approval.

    Attributes:
        digest: A digest of the tool, its version and the arguments. The answer must repeat it.
        expires_s: Seconds for which the request can be answered.
    """

    call_id: str
    user: str
    tool: ToolSpec
    arguments: Mapping[str, Any]
    digest: str
    expires_s: float

    def shown(self, most: int) -> str:
        """Return the arguments as ASCII JSON, truncated to `most` characters.

        Control characters are escaped, because they could make a call look like another one.
        """
        given = json.dumps(self.arguments, ensure_ascii=True, indent=2)
        return given if len(given) <= most else f"{given[:most]}\n… {len(given) - most:,} characters more"


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """The answer to a request.

    Attributes:
        digest: The digest of the answered request.
        by: The name of the person who answered, if known.
    """

    approved: bool
    digest: str
    reason: str = ""
    by: str = ""


class Approver(Protocol):
    """Asks a person for approval, for example at a terminal, over MCP or over HTTP."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer: ...


class ApprovalGuard(Guard):
    """A guard that asks for approval. It is the last guard, so that nothing comes between the approval and the call."""

    def __init__(
        self,
        approver: Approver | None,
        mode: ApprovalMode,
        *,
        expires_s: float = EXPIRES_S,
        waits: PersonWaits | None = None,
        granted: GrantedApprovals | None = None,
    ) -> None:
        """Create the guard.

        Args:
            approver: Asks the person. If it is None, nobody can be asked, and calls that need approval are refused.
            mode: Which calls need approval.
            expires_s: Seconds for which a request can be answered.
            waits: Is told of each wait for an answer.
            granted: Calls that were approved already, in a list.
        """
        self._approver = approver
        self._waits = waits or PersonWaits()
        self._granted = granted or GrantedApprovals()
        self._mode = mode
        self._expires_s = expires_s

    @property
    def can_ask(self) -> bool:
        """Whether there is an approver."""
        return self._approver is not None

    def concerns(self, spec: ToolSpec) -> bool:
        """Return whether calls of the tool need approval before they run.

        A built-in tool that asks for approval itself (`ASKS_FOR_APPROVAL`) is only asked about if it also has
        `requires_confirmation`.
        """
        if self._mode == "off":
            return False
        asked = spec.annotations.requires_confirmation
        if spec.origin is Origin.STATIC and spec.meta.get(ASKS_FOR_APPROVAL) is True:
            return asked
        return asked or (self._mode == "destructive" and spec.annotations.destructive)

    async def admit(self, request: GuardRequest) -> None:
        """Request approval for the call.

        Raises:
            ToolFailure: The call was not approved (FATAL).
        """
        if request.turn.trial:
            raise _refused(f"{request.spec.name} needs a person's approval, so it cannot be called in a trial.")
        if not self._granted.use(request.call_id):
            await self.confirm(request.spec, request.call.arguments, call_id=request.call_id, user=request.turn.user)

    async def confirm(self, spec: ToolSpec, arguments: Mapping[str, Any], *, call_id: str, user: str) -> str:
        """Ask for approval of these arguments, whatever the mode is, and return the name of the approver.

        This is for tools that find out only while they run what exactly needs approval.

        Raises:
            ToolFailure: These exact arguments were not approved (FATAL).
        """
        name = spec.name
        if self._approver is None:
            text = f"{name} needs a person's approval, and nobody can be asked here. Nothing was run."
            raise _refused(text, answered=False)
        expected = digest_of(spec, arguments)
        shown = json.loads(json.dumps(arguments, default=str))  # a copy that cannot change later
        question = ApprovalRequest(call_id, user, spec, shown, expected, self._expires_s)
        try:
            with self._waits.waiting(call_id):
                async with asyncio.timeout(self._expires_s) as deadline:
                    answer = await self._approver.ask(question)
        except Exception as error:
            if deadline.expired():
                text = f"{name} was not run: nobody approved it within {self._expires_s:g} s."
                raise _refused(text, answered=False) from error
            said = " ".join(str(error).split())[:200] or type(error).__name__
            raise _refused(f"{name} was not run: asking for approval failed: {said}.") from error
        if not answer.approved:
            because = f": {answer.reason}" if answer.reason else "."
            raise _refused(f"{name} was not run: the user said no{because}")
        if answer.digest != expected or digest_of(spec, arguments) != expected:
            raise _refused(f"{name} was not run: the approval is for other arguments or another version of the tool.")
        return answer.by or user


def digest_of(spec: ToolSpec, arguments: Mapping[str, Any]) -> str:
    """Return the digest of the tool, its version and the arguments."""
    return digest([spec.name, spec.version, arguments])


def _refused(text: str, *, answered: bool = True) -> ToolFailure:
    refused = refusal(text, NOT_APPROVED, FailureClass.FATAL)
    refused.output = None if answered else UNANSWERED
    return refused

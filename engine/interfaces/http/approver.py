"""Approval over HTTP (ACCESS-8): a call waits until someone with another token approves or rejects it.

The token that made a call cannot approve it, because an agent must not approve its own calls. An answer is bound to the
digest of the call that would run. It is accepted only once, and only while the call waits.
"""

import asyncio
import secrets
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

from engine.contract.events import Awaiting
from engine.interfaces.http.responses import HttpProblem
from engine.interfaces.http.running_calls import RunningCall, current_call
from engine.interfaces.http.tokens import Caller
from engine.policy.access import user_rank
from engine.policy.approval import ApprovalAnswer, ApprovalRequest

_MAX_PENDING = 256
_MAX_ANSWERED = 1_024  # answered calls whose ids are kept, to distinguish a second answer from an unknown id
_SHOWN_CHARACTERS = 2_000  # limit for the arguments in a list


@dataclass(slots=True, eq=False)
class PendingApproval:
    """A call that waits for approval, and the future that receives the answer."""

    id: str
    call: RunningCall
    request: ApprovalRequest
    expires: datetime
    answer: "asyncio.Future[ApprovalAnswer]" = field(default_factory=asyncio.Future)

    def brief(self) -> dict[str, Any]:
        """Return the JSON fields of the approval for a list, with shortened arguments."""
        return {**self._common(), "arguments_shown": self.request.shown(_SHOWN_CHARACTERS)}

    def full(self) -> dict[str, Any]:
        """Return the JSON fields of the approval, with all arguments."""
        return {**self._common(), "arguments": self.request.arguments}

    def _common(self) -> dict[str, Any]:
        tool, caller = self.request.tool, self.call.caller
        return {
            "id": self.id,
            "call_id": self.call.call_id,
            "user": caller.user,
            "agent": caller.agent,
            "token": caller.name,
            "tool": tool.name,
            "summary": tool.summary,
            "digest": self.request.digest,
            "expires": self.expires.isoformat(),
        }


class HttpApprover:
    """Keeps the calls of one server that wait for approval, and receives the answers. Use it in one event loop."""

    def __init__(self) -> None:
        self._pending: dict[str, PendingApproval] = {}
        self._answered: deque[str] = deque(maxlen=_MAX_ANSWERED)

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Wait for the answer. The awaiting code enforces the time limit by cancelling this method.

        Raises:
            PermissionError: The call did not come over HTTP, or too many calls wait already.
        """
        call = current_call()
        if call is None:
            raise PermissionError("the call did not come over HTTP")
        if len(self._pending) >= _MAX_PENDING:
            raise PermissionError(f"{_MAX_PENDING} calls already wait for approval")
        expires = call.clock.now() + timedelta(seconds=request.expires_s)
        pending = PendingApproval(secrets.token_urlsafe(18), call, request, expires)
        self._pending[pending.id] = pending
        call.events.put(Awaiting(pending.id, request.digest, expires.isoformat()))
        try:
            return await pending.answer
        finally:
            self._pending.pop(pending.id, None)

    def pending(self, caller: Caller) -> list[PendingApproval]:
        """Return the waiting calls that this caller may approve or reject.

        Raises:
            HttpProblem: 403 for a token that may not approve calls.
        """
        if not caller.approves:
            text = "This token may not approve calls. Create one that may: knackbox serve token add NAME --approves."
            raise HttpProblem(HTTPStatus.FORBIDDEN, text)
        return [each for each in self._pending.values() if _may_answer(caller, each)]

    def find(self, caller: Caller, approval_id: str) -> PendingApproval:
        """Return the waiting call with this id.

        Raises:
            HttpProblem: 404 if no such call waits or this caller may not answer it, 409 if it was already answered.
        """
        found = next((each for each in self.pending(caller) if each.id == approval_id), None)
        if found is not None:
            return found
        if approval_id in self._answered:
            raise HttpProblem(HTTPStatus.CONFLICT, "This call was already answered. Only the first answer counts.")
        raise HttpProblem(
            HTTPStatus.NOT_FOUND, "No call with this approval id waits for you: the id is unknown or has expired."
        )

    async def answer(self, caller: Caller, approval_id: str, answer: ApprovalAnswer) -> None:
        """Approve or reject a waiting call.

        Raises:
            HttpProblem: The same as from `find`; also 409 if the digest does not match, or the token that made the call
                was removed or changed.
        """
        if not await asyncio.to_thread(self.find(caller, approval_id).call.token_is_valid):
            raise HttpProblem(
                HTTPStatus.CONFLICT, "The token that made this call was removed or changed. The call will not run."
            )
        pending = self.find(caller, approval_id)  # repeated, because the call may have been answered meanwhile
        if not secrets.compare_digest(answer.digest.encode(), pending.request.digest.encode()):
            raise HttpProblem(HTTPStatus.CONFLICT, "The digest does not match the waiting call. Read the call again.")
        del self._pending[approval_id]
        self._answered.append(approval_id)
        if not pending.answer.done():
            pending.answer.set_result(answer)


def _may_answer(caller: Caller, pending: PendingApproval) -> bool:
    origin = pending.call.caller
    if caller.name == origin.name:
        return False
    return caller.user == origin.user or user_rank(caller.permission) >= user_rank("admin")

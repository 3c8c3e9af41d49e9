"""Approval over HTTP (ACCESS-8): the call waits, and somebody with another token answers for it.

Never the token that asked: an agent that holds one must not be its own judge. An answer is bound to the digest of what
would run, counts while the call waits, and counts once.
"""

import asyncio
import secrets
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

from engine.contract.events import Awaiting
from engine.interfaces.http.answers import HttpProblem
from engine.interfaces.http.calls import Running, present
from engine.interfaces.http.tokens import Caller
from engine.policy.access import user_rank
from engine.policy.approval import ApprovalAnswer, ApprovalRequest

_MOST_WAITING = 256
_REMEMBERED = 1_024  # ids that were answered, to tell a second answer from an unknown id
_SHOWN = 2_000  # characters of the arguments in a list


@dataclass(slots=True, eq=False)
class Waiting:
    """A question, and where its answer goes."""

    id: str
    call: Running
    request: ApprovalRequest
    expires: datetime
    answer: "asyncio.Future[ApprovalAnswer]" = field(default_factory=asyncio.Future)

    def brief(self) -> dict[str, Any]:
        """For a list: the arguments as far as they are short."""
        return {**self._common(), "arguments_shown": self.request.shown(_SHOWN)}

    def whole(self) -> dict[str, Any]:
        """All that the yes would be for."""
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
    """Holds the questions of one server, in one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._answered: deque[str] = deque(maxlen=_REMEMBERED)

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Wait for the answer; whoever limits the time cancels this. Raises PermissionError when it cannot be asked."""
        call = present()
        if call is None:
            raise PermissionError("the call did not come over HTTP")
        if len(self._waiting) >= _MOST_WAITING:
            raise PermissionError(f"{_MOST_WAITING} calls wait for an answer already")
        expires = call.clock.now() + timedelta(seconds=request.expires_s)
        waiting = Waiting(secrets.token_urlsafe(18), call, request, expires)
        self._waiting[waiting.id] = waiting
        call.events.put(Awaiting(waiting.id, request.digest, expires.isoformat()))
        try:
            return await waiting.answer
        finally:
            self._waiting.pop(waiting.id, None)

    def waiting(self, caller: Caller) -> list[Waiting]:
        """What this caller may answer for. Raises Problem for a token that may not approve at all."""
        if not caller.approves:
            raise HttpProblem(
                HTTPStatus.FORBIDDEN, "This token does not approve calls. Make one with --approves for that."
            )
        return [each for each in self._waiting.values() if _may_answer(caller, each)]

    def find(self, caller: Caller, approval_id: str) -> Waiting:
        """Raises HttpProblem: 404 for what does not wait or is not this caller's to answer, 409 for an answered one."""
        found = next((each for each in self.waiting(caller) if each.id == approval_id), None)
        if found is not None:
            return found
        if approval_id in self._answered:
            raise HttpProblem(HTTPStatus.CONFLICT, "This was answered already; an answer counts once.")
        raise HttpProblem(HTTPStatus.NOT_FOUND, "Nothing of this id waits for you: it is unknown, or it is over.")

    async def answer(self, caller: Caller, approval_id: str, answer: ApprovalAnswer) -> None:
        """Raises Problem as `find` does, and 409 when the digest is of something else or who asked has no token now."""
        if not await asyncio.to_thread(self.find(caller, approval_id).call.stands):
            raise HttpProblem(
                HTTPStatus.CONFLICT, "The token that asked was removed or changed. The call will not run."
            )
        waiting = self.find(caller, approval_id)  # again: it may have been answered meanwhile
        if not secrets.compare_digest(answer.digest.encode(), waiting.request.digest.encode()):
            raise HttpProblem(HTTPStatus.CONFLICT, "The digest is not that of the waiting call. Read it again.")
        del self._waiting[approval_id]
        self._answered.append(approval_id)
        if not waiting.answer.done():
            waiting.answer.set_result(answer)


def _may_answer(caller: Caller, waiting: Waiting) -> bool:
    asked = waiting.call.caller
    if caller.name == asked.name:
        return False
    return caller.user == asked.user or user_rank(caller.permission) >= user_rank("admin")

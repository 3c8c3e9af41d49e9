"""Approval through an MCP client (ACCESS-8): the client asks its user, by what the protocol calls elicitation.

Clients before 2026-07-28 are asked while the call waits. Later ones have no channel back: their call is answered with
the question, and they call again with the answer. Meanwhile the call of the engine waits; the token that joins the two
is ours, cannot be guessed, and is good once.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mcp.server.session import ServerSession
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from engine.contract.result import ToolResult
from engine.policy.approval import ApprovalAnswer, ApprovalRequest

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Run it", "default": False}},
    "required": ["approve"],
}
_QUESTION = "approval"
_SHOWN = 2_000  # characters of the arguments
_MOST_WAITING = 64


@dataclass(slots=True)
class _Round:
    """One call of a client: how its user is asked."""

    session: ServerSession
    asked: "asyncio.Future[ApprovalRequest]" = field(default_factory=asyncio.Future)
    answer: "asyncio.Future[ApprovalAnswer]" = field(default_factory=asyncio.Future)


@dataclass(slots=True)
class _Waiting:
    name: str
    round: _Round
    task: "asyncio.Task[ToolResult]"


_PRESENT: ContextVar[_Round | None] = ContextVar("knackbox_mcp_round", default=None)


class McpApprover:
    """Asks whoever made the call. For one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Raises PermissionError for a client that cannot ask its user; then nothing runs."""
        present = _PRESENT.get()
        if present is None:
            raise PermissionError("the call did not come from an MCP client")
        session = present.session
        if session.client_capabilities is None or session.client_capabilities.elicitation is None:
            raise PermissionError("the MCP client cannot ask its user (it has no elicitation)")
        if not session.can_send_request:
            present.asked.set_result(request)
            return await present.answer
        result = await session.elicit_form(question(request), _SCHEMA)
        return judged(result, request.digest)

    async def call(
        self,
        params: CallToolRequestParams,
        session: ServerSession,
        run: Callable[[], Coroutine[Any, Any, ToolResult]],
    ) -> ToolResult | InputRequiredResult:
        """Run a call that may come to a question; the result, or the question for the client to bring back."""
        waiting = self._taken_up(params)
        if waiting is None:
            waiting = self._begin(params.name, _Round(session), run)
        else:
            given = (params.input_responses or {}).get(_QUESTION)
            answer = given if isinstance(given, ElicitResult) else ElicitResult(action="cancel")
            waiting.round.answer.set_result(judged(answer, waiting.round.asked.result().digest))
            waiting.round.asked = asyncio.Future()  # a call may come to a second question, with an answer of its own
            waiting.round.answer = asyncio.Future()
        try:
            await asyncio.wait((waiting.task, waiting.round.asked), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            waiting.task.cancel()
            await asyncio.wait((waiting.task,))
            raise
        if waiting.task.done():
            return waiting.task.result()
        return self._put_off(waiting)

    async def aclose(self) -> None:
        """End what still waits for an answer."""
        tasks = [each.task for each in self._waiting.values()]
        self._waiting.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @staticmethod
    def _begin(name: str, present: _Round, run: Callable[[], Coroutine[Any, Any, ToolResult]]) -> _Waiting:
        token = _PRESENT.set(present)
        try:
            return _Waiting(name, present, asyncio.ensure_future(run()))
        finally:
            _PRESENT.reset(token)

    def _taken_up(self, params: CallToolRequestParams) -> _Waiting | None:
        """The call that waits for this answer; None for a new call, also where the token is none of ours."""
        waiting = self._waiting.pop(params.request_state, None) if params.request_state else None
        if waiting is None or waiting.name != params.name or waiting.task.done():
            return None
        return waiting

    def _put_off(self, waiting: _Waiting) -> InputRequiredResult:
        for token in [token for token, each in self._waiting.items() if each.task.done()]:
            del self._waiting[token]
        while len(self._waiting) >= _MOST_WAITING:  # their approvals expire of themselves
            del self._waiting[next(iter(self._waiting))]
        token = secrets.token_urlsafe(24)
        self._waiting[token] = waiting
        asked = waiting.round.asked.result()
        form = ElicitRequest(params=ElicitRequestFormParams(message=question(asked), requested_schema=_SCHEMA))
        return InputRequiredResult(input_requests={_QUESTION: form}, request_state=token)


def question(request: ApprovalRequest) -> str:
    """What the user reads."""
    return f"Run {request.tool.name}? {request.tool.summary}.\n{request.shown(_SHOWN)}"


def judged(result: ElicitResult, digest: str) -> ApprovalAnswer:
    """Nothing but an accepted form with a true `approve` is a yes."""
    approved = result.action == "accept" and (result.content or {}).get("approve") is True
    return ApprovalAnswer(approved, digest, "" if approved else "not approved in the client")

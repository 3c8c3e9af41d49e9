"""Questions to the user of an MCP client: approvals (ACCESS-8) and forms. The protocol calls them elicitation.

A client with a protocol version before 2026-07-28 receives a request while its call waits. Since that version, servers
send no requests: the call returns the question, and the client calls again with the answer. In the meantime the
engine's call waits. A random token, which can be used only once, links the two calls of the client.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    RequestId,
)

from engine.contract.result import ToolResult
from engine.interfaces.mcp.opening import Context
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from engine.policy.forms import Form

_APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Run it", "default": False}},
    "required": ["approve"],
}
_QUESTION = "question"
_SHOWN_CHARACTERS = 2_000  # limit for the arguments
_MAX_SUSPENDED = 64  # calls of one owner


@dataclass(slots=True)
class _Elicitation:
    """Passes the questions of one call to the client's user, one at a time, and the answers back."""

    session: ServerSession
    request_id: RequestId | None
    allowed: bool
    question: "asyncio.Future[ElicitRequestFormParams]" = field(default_factory=asyncio.Future)
    answer: "asyncio.Future[ElicitResult]" = field(default_factory=asyncio.Future)


@dataclass(slots=True)
class _SuspendedCall:
    """A running call, which may wait for the client to call again with an answer."""

    name: str
    owner: str
    elicitation: _Elicitation
    task: "asyncio.Task[ToolResult]"


_CURRENT: ContextVar[_Elicitation | None] = ContextVar("knackbox_mcp_elicitation", default=None)


class McpElicitation:
    """Asks the user of the client that made the call. Use it in one event loop."""

    def __init__(self) -> None:
        self._suspended: dict[str, _SuspendedCall] = {}

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Ask the user to approve a call and wait for the answer.

        Raises:
            PermissionError: The client cannot ask its user, so the call must not run.
        """
        return approval_answer(await self._elicit(approval_question(request), _APPROVAL), request.digest)

    async def fill(self, form: Form) -> Mapping[str, str] | None:
        """Ask the user to fill in a form. Return None if the user declines or cannot be asked."""
        try:
            result = await self._elicit(form.message, form_schema(form))
        except PermissionError:
            return None
        if result.action != "accept":
            return None
        return {name: text for name, text in (result.content or {}).items() if isinstance(text, str)}

    def can_ask(self) -> bool:
        """Return whether the call that runs this code came from a client that can and may ask its user."""
        elicitation = _CURRENT.get()
        return elicitation is not None and not _obstacle(elicitation)

    async def call(
        self,
        params: CallToolRequestParams,
        context: Context,
        run: Callable[[], Coroutine[Any, Any, ToolResult]],
        *,
        owner: str = "",
        allowed: bool = True,
    ) -> ToolResult | InputRequiredResult:
        """Run a call that may have questions to the user.

        Args:
            params: The request of the client. It may continue a call that was suspended for an answer.
            context: The context of the request.
            run: Starts the call of the engine.
            owner: The owner of the call. Only requests of the same owner can continue it.
            allowed: Whether the client may ask its user.

        Returns:
            The result, or the question that the client must answer in another request.

        Raises:
            MCPError: The request answers a question that this owner was not asked, or that has expired.
        """
        if params.request_state is None:
            elicitation = _Elicitation(context.session, context.request_id, allowed)
            call = self._start(params.name, owner, elicitation, run)
        else:
            call = self._resume(params, owner)
            given = (params.input_responses or {}).get(_QUESTION)
            if not isinstance(given, ElicitResult):
                return self._suspend(call)  # the answer is missing, so the client receives the question again
            call.elicitation.answer.set_result(given)
            call.elicitation.question = asyncio.Future()  # the call may have another question
            call.elicitation.answer = asyncio.Future()
        try:
            await asyncio.wait((call.task, call.elicitation.question), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            call.task.cancel()
            await asyncio.wait((call.task,))
            raise
        if call.task.done():
            return call.task.result()
        return self._suspend(call)

    async def aclose(self) -> None:
        """Cancel the calls that still wait for an answer."""
        tasks = [each.task for each in self._suspended.values()]
        self._suspended.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _elicit(self, message: str, schema: dict[str, Any]) -> ElicitResult:
        """Ask the user of the client to fill in a form.

        Args:
            message: What the user is asked.
            schema: The JSON Schema of the form.

        Raises:
            PermissionError: The client cannot ask its user.
        """
        elicitation = _CURRENT.get()
        if elicitation is None:
            raise PermissionError("the call did not come from an MCP client")
        if obstacle := _obstacle(elicitation):
            raise PermissionError(obstacle)
        if elicitation.session.can_send_request:
            # Over HTTP, the id sends the question on the response stream of the call, which is certainly open.
            return await elicitation.session.elicit_form(message, schema, elicitation.request_id)
        elicitation.question.set_result(ElicitRequestFormParams(message=message, requested_schema=schema))
        return await elicitation.answer

    @staticmethod
    def _start(
        name: str, owner: str, elicitation: _Elicitation, run: Callable[[], Coroutine[Any, Any, ToolResult]]
    ) -> _SuspendedCall:
        token = _CURRENT.set(elicitation)
        try:
            return _SuspendedCall(name, owner, elicitation, asyncio.ensure_future(run()))
        finally:
            _CURRENT.reset(token)

    def _resume(self, params: CallToolRequestParams, owner: str) -> _SuspendedCall:
        """Return the suspended call that a request continues.

        Raises:
            MCPError: The token in the request is not valid for this owner and tool.
        """
        token = params.request_state or ""
        call = self._suspended.get(token)
        if call is None or call.owner != owner or call.name != params.name or call.task.done():
            text = "requestState is not valid, or its question has expired. Call the tool again without it."
            raise MCPError(INVALID_PARAMS, text)
        del self._suspended[token]
        return call

    def _suspend(self, call: _SuspendedCall) -> InputRequiredResult:
        for token in [token for token, each in self._suspended.items() if each.task.done()]:
            del self._suspended[token]
        own = [token for token, each in self._suspended.items() if each.owner == call.owner]
        for expired in own[: max(0, len(own) + 1 - _MAX_SUSPENDED)]:  # the questions of the oldest calls expire
            del self._suspended[expired]
        token = secrets.token_urlsafe(24)
        self._suspended[token] = call
        form = ElicitRequest(params=call.elicitation.question.result())
        return InputRequiredResult(input_requests={_QUESTION: form}, request_state=token)


def _obstacle(elicitation: _Elicitation) -> str:
    """Return why the client of a call cannot ask its user, or "" if it can."""
    if not elicitation.allowed:
        return "the token of this client may not approve its calls"
    capabilities = elicitation.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return "the MCP client cannot ask its user (it does not support elicitation)"
    return ""


def approval_question(request: ApprovalRequest) -> str:
    """Return the question that the user reads before approving a call."""
    return f"Run {request.tool.name}? {request.tool.summary}.\n{request.shown(_SHOWN_CHARACTERS)}"


def approval_answer(result: ElicitResult, digest: str) -> ApprovalAnswer:
    """Convert the user's answer. Only an accepted form with a true `approve` is an approval."""
    approved = result.action == "accept" and (result.content or {}).get("approve") is True
    return ApprovalAnswer(approved, digest, "" if approved else "not approved in the client")


def form_schema(form: Form) -> dict[str, Any]:
    """Return a form as the JSON Schema of an elicitation. No field is required."""
    fields = {
        each.name: {"type": "string", "title": each.title, "description": each.hint or each.title}
        for each in form.fields
    }
    return {"type": "object", "properties": fields}

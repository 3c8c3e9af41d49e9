"""`InnerCalls`: lets tools call other tools. Each inner call goes through the whole pipeline.

A composite tool therefore cannot bypass a policy: allow-lists, limits, approvals and the audit apply to every inner
call, under the turn of the outer call. The id of an inner call begins with the id of its outer call.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Protocol

from engine.contract.context import CallContext
from engine.contract.failure import REFUSED, Failure, FailureClass
from engine.contract.result import Audit, ToolCall, ToolResult
from engine.contract.source import Tool
from engine.contract.turn import Turn
from engine.dispatch.bind import CallRunner
from engine.policy.access import no_module
from engine.policy.granted_approvals import GrantedApprovals
from engine.policy.person_waits import OnWait, PersonWaits

DEEPEST = 8  # the maximum nesting of inner calls


class InnerRunner(CallRunner, Protocol):
    """Runs calls, and can stop the deadline of one."""

    def clock_stopped(self, call_id: str) -> contextlib.AbstractContextManager[None]: ...


class InnerCalls:
    """Runs inner calls. An engine has one instance, which tools get with `ctx.need(InnerCalls)`."""

    def __init__(
        self,
        find: Callable[[str], Awaitable[Tool | None]],
        calls: InnerRunner,
        waits: PersonWaits | None = None,
        approvals: GrantedApprovals | None = None,
    ) -> None:
        self._find = find
        self._calls = calls
        self._waits = waits or PersonWaits()
        self._approvals = approvals or GrantedApprovals()
        self._depths: dict[str, int] = {}  # nesting depth of each inner call in flight, by id

    def is_inner(self, call_id: str) -> bool:
        """Return whether this is the id of an inner call in flight."""
        return call_id in self._depths

    @contextlib.contextmanager
    def clock_stopped_in_waits(self, ctx: CallContext, also: OnWait) -> Iterator[None]:
        """Within the block, stop the deadline of the outer call whenever an inner call waits for a person.

        `also()` is entered for the time of each such wait.
        """

        @contextlib.contextmanager
        def stopped() -> Iterator[None]:
            with self._calls.clock_stopped(ctx.call_id), also():
                yield

        with self._waits.watched(ctx.call_id, stopped):
            yield

    async def find(self, name: str, turn: Turn) -> Tool | None:
        """Return the tool with exactly this name or alias. Modules that the turn may not use are not searched."""
        return None if no_module(name, turn) else await self._find(name)

    def clock_stopped(self, ctx: CallContext) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the deadline of the outer call stands still."""
        return self._calls.clock_stopped(ctx.call_id)

    async def call(self, ctx: CallContext, call: ToolCall, *, approved: bool = False) -> ToolResult:
        """Run an inner call for the outer call of `ctx`. The outer call's listener receives the progress.

        The inner call is refused (DIAGNOSTIC) if it is nested more than `DEEPEST` levels deep.

        Args:
            ctx: The context of the outer call.
            call: The inner call. Its id is the position of the inner call within the outer call.
            approved: Whether a person has approved exactly this call already, within the outer call.
        """
        depth = self._depths.get(ctx.call_id, 0) + 1
        known = ctx.tool_context and replace(ctx.tool_context, raw_arg="")
        inner = ToolCall(call.name, call.arguments, f"{ctx.call_id}/{call.id}", known)
        if depth > DEEPEST:
            failure = Failure(FailureClass.DIAGNOSTIC, "nested_too_deep", may_have_started=False, replay_safe=True)
            text = f"{call.name} was not run: calls are nested more than {DEEPEST} deep."
            return ToolResult(success=False, error=text, failure=failure, audit=Audit(call.name, inner.id, end=REFUSED))
        self._depths[inner.id] = depth
        if approved:
            self._approvals.grant(inner.id)
        try:
            return await self._calls.call(inner, ctx.turn, progress=ctx.progress)
        finally:
            self._approvals.withdraw(inner.id)
            self._depths.pop(inner.id, None)

"""`DeclaredToolPrograms`: runs skills that declare the tools they call, over a bridge with exactly these tools."""

from collections.abc import Sequence

from builtin_tools.bridge.program_calls import CallBounds, ProgramCalls
from engine.contract.context import CallContext, no_progress
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.tool_programs import ToolPrograms
from engine.dispatch.forwarding import Pieces
from engine.dispatch.inner_calls import InnerCalls
from engine.dispatch.refusals import not_configured
from engine.policy.access import DENIED, why_not
from engine.policy.approval import NOT_APPROVED
from sandbox.bridge.bridge import Bridge, BridgedSandbox
from sandbox.contract import Job, Outcome, Unsupported


class DeclaredToolPrograms(ToolPrograms):
    """Runs the programs of one engine.

    Nothing is recorded: a skill whose engine was killed does not run again by itself, as with any call whose effect is
    unknown.
    """

    def __init__(self, bounds: CallBounds | None = None) -> None:
        """Create the object. `bounds` are the limits of the calls of one program; None for the defaults."""
        self._bounds = bounds

    async def run_declared(self, ctx: CallContext, job: Job, what: str, tools: Sequence[str]) -> Outcome:
        """Run the job of a call. Its program can call exactly these tools, with the rights of the call's turn.

        Raises:
            ToolFailure: The sandbox has no bridges, the turn may not call one of the tools, or a call needed an
                approval that nobody gave.
            SandboxError: The job could not be run, for a reason other than its code.
        """
        if not isinstance(ctx.sandbox, BridgedSandbox):
            raise _no_bridge(what, ctx)
        await self._refuse_unless_callable(ctx, what, tools)
        calls = ProgramCalls(ctx, bounds=self._bounds, only=frozenset(tools))
        bridge = Bridge(calls.answer)
        on_output = None if ctx.progress is no_progress else Pieces(ctx)
        try:
            with calls.clock_stopped_in_waits(bridge.paused):
                outcome = await ctx.sandbox.run_bridged(job, bridge, on_output=on_output)
        except Unsupported as error:
            raise _no_bridge(what, ctx) from error
        finally:
            made = await calls.finish()
        if calls.unapproved:
            text = f"{what} was stopped at a call that needs an approval: {calls.unapproved} {made}"
            raise ToolFailure(text, failure_class=FailureClass.FATAL, reason=NOT_APPROVED, may_have_started=True)
        return outcome

    async def _refuse_unless_callable(self, ctx: CallContext, what: str, tools: Sequence[str]) -> None:
        """Refuse before the program starts, so that it does not stop half-way.

        Raises:
            ToolFailure: A tool is missing, or the turn may not call it.
        """
        inner = ctx.need(InnerCalls)
        for name in tools:
            tool = await inner.find(name, ctx.turn)
            if tool is None:
                text = f"{what} calls the tool {name}, which is not available in this turn. Nothing was run."
                raise refusal(text, "declared_tool_missing", FailureClass.FATAL)
            if reason := why_not(tool.spec, ctx.turn):
                text = f"{what} calls the tool {name}, which may not be called: {reason}. Nothing was run."
                raise refusal(text, DENIED, FailureClass.FATAL)


def _no_bridge(what: str, ctx: CallContext) -> ToolFailure:
    return not_configured(
        f"{what} calls other tools, which programs in the sandbox {ctx.sandbox.name!r} cannot do. "
        'Use the sandbox "namespace", or call the tools one by one.'
    )

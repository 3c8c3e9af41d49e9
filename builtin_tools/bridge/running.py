"""Runs a job of `execute` with a bridge, over which its program calls the tools of the turn."""

from builtin_tools.bridge.program_calls import ProgramCalls
from engine.contract.context import CallContext
from engine.contract.failure import refusal
from engine.dispatch.inner_calls import InnerCalls
from engine.dispatch.refusals import not_configured
from sandbox.bridge.bridge import Bridge, BridgedSandbox
from sandbox.contract import Job, OnOutput, Outcome

_NAME = "knackbox"  # how programs import the bridge, and how the command for shells begins


def wants_tools(tools: bool | None, *sources: str) -> bool:
    """Return whether a program gets a bridge: if it is asked for or, unless decided, if a source names the client.

    A program that does not use it gets none, so that nothing can misuse it.
    """
    return any(_NAME in source for source in sources) if tools is None else tools


def program_calls(ctx: CallContext) -> ProgramCalls:
    """Return what answers a program of this call.

    Raises:
        ToolFailure: The call is itself made by a program or a tool, or the sandbox has no bridges.
    """
    if ctx.need(InnerCalls).is_inner(ctx.call_id):
        raise refusal("A program that another tool runs cannot call tools.", "nested")
    if not isinstance(ctx.sandbox, BridgedSandbox):
        raise not_configured(
            f"Programs cannot call tools in the sandbox {ctx.sandbox.name!r}. Make the calls yourself."
        )
    return ProgramCalls(ctx)


async def run_bridged(ctx: CallContext, job: Job, calls: ProgramCalls, on_output: OnOutput | None) -> Outcome:
    """Run the job. The clocks of its box and of the call stand still while one of its calls waits for a person.

    Raises:
        Busy: All boxes are in use.
        SandboxError: The job could not be run, for a reason other than its code.
    """
    sandbox = ctx.sandbox
    if not isinstance(sandbox, BridgedSandbox):
        raise TypeError("`program_calls` checks that the sandbox has bridges.")
    bridge = Bridge(calls.answer)
    with ctx.need(InnerCalls).clock_stopped_in_waits(ctx, bridge.paused):
        outcome = await sandbox.run_bridged(job, bridge, on_output=on_output)
    ctx.audit.update(calls.data())
    return outcome

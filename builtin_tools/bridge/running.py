"""Runs a job of `execute` with a bridge, over which its program calls the tools of the turn."""

from dataclasses import replace

from builtin_tools.bridge.plan_execution import carry_out
from builtin_tools.bridge.planned_calls import ProgramPlan
from builtin_tools.bridge.program_calls import ProgramCalls
from builtin_tools.bridge.recorded_programs import RecordedPrograms, code_of, source_of
from engine.contract.canonical import digest
from engine.contract.context import CallContext, MissingService, no_progress
from engine.contract.failure import refusal
from engine.contract.spec import ToolSpec
from engine.dispatch.call_secrets import CallSecrets
from engine.dispatch.forwarding import Pieces
from engine.dispatch.inner_calls import InnerCalls
from engine.dispatch.refusals import not_configured
from sandbox.agent_sandbox import has_bridges
from sandbox.bridge.bridge import Bridge, BridgedSandbox
from sandbox.contract import End, Job, Outcome
from sandbox.secrets.secret import variables

# How often a program is run whose box is killed from outside, for example by the kernel when the machine has no memory
# left. A program that kills itself each time must not run for ever.
_EXECUTIONS = 3


def cell_calls(ctx: CallContext, tools: bool | None) -> ProgramCalls | None:
    """Return what answers a cell of this call; None if it gets no answers.

    Unless decided, every cell does that a person or a model runs, because an earlier one may have imported the client.

    Raises:
        ToolFailure: Tools are asked for, but the call is itself made by a program or a tool.
    """
    inner = ctx.services.get(InnerCalls)
    if tools or (tools is None and inner is not None and not inner.is_inner(ctx.call_id)):
        _bridged_sandbox(ctx)
        return ProgramCalls(ctx)
    return None


def tools_by_default(ctx: CallContext) -> bool:
    """Return whether a program of this call gets a bridge, unless decided, even if its code does not use the client.

    It does in turns that list no other way to call most tools, because a module that the code imports may use it.
    """
    inner = ctx.services.get(InnerCalls)
    can = inner is not None and not inner.is_inner(ctx.call_id) and has_bridges(ctx.sandbox)
    return ctx.turn.use_tool_search_flow and can


async def run_program(
    ctx: CallContext, job: Job, *, with_tools: bool, plan_for: ToolSpec | None = None
) -> tuple[Outcome, str]:
    """Run the job of a program, and return its outcome, with a text about its calls.

    With `plan_for`, the spec of `execute`, its changing calls are collected, and made after a person has approved them.

    The clocks of its box and of the call stand still while one of its calls waits for a person. A recorded program
    whose box is killed from outside runs again, with the recorded answers.

    Raises:
        ToolFailure: The program may not call tools, waits for an approval, or differs from its earlier execution.
        Busy: All boxes are in use.
        SandboxError: The job could not be run, for a reason other than its code.
    """
    on_output = None if ctx.progress is no_progress else Pieces(ctx)
    if not with_tools:
        return await ctx.sandbox.run(job, on_output=on_output), ""
    job = replace(job, env=_placeholders(ctx) | dict(job.env))
    sandbox = _bridged_sandbox(ctx)
    programs = ctx.need(RecordedPrograms)
    source = source_of(job) if plan_for is None else None
    for left in reversed(range(_EXECUTIONS)):
        plan = ProgramPlan() if plan_for is not None else None
        calls, prelude = await programs.begin(ctx, digest(code_of(job)), plan, source)
        bridge = Bridge(calls.answer)
        done = ""
        try:
            with calls.clock_stopped_in_waits(bridge.paused):
                outcome = await sandbox.run_bridged(replace(job, prelude=prelude), bridge, on_output=on_output)
            if plan is not None and plan_for is not None and outcome.ok and not (calls.unapproved or calls.diverged):
                lines = await carry_out(ctx, plan_for, calls, plan) if plan.lines else ()
                done = "\n".join(["Plan:", *map(str, lines)]) if lines else ""
        finally:
            made = await calls.finish()
        calls.raise_if_stopped(made)
        if outcome.end is not End.KILLED or not calls.recorded or not left:
            break
    await programs.finish(ctx, outcome)
    return outcome, "\n".join(filter(None, (done, made)))


def _placeholders(ctx: CallContext) -> dict[str, str]:
    """Return the variables with the placeholders of secrets that some tool may have. Only that tool gets the value."""
    try:
        return variables(ctx.need(CallSecrets).for_tools)
    except MissingService:  # no secret is configured
        return {}


def _bridged_sandbox(ctx: CallContext) -> BridgedSandbox:
    if ctx.need(InnerCalls).is_inner(ctx.call_id):
        raise refusal("A program that another tool runs cannot call tools.", "nested")
    if not isinstance(ctx.sandbox, BridgedSandbox):
        raise not_configured(f"Programs cannot call tools in the sandbox {ctx.sandbox.name!r}. Call them one by one.")
    return ctx.sandbox

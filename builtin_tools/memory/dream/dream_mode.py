"""`dream_mode`: consolidates the memory. Makes a plan, applies it, or undoes it."""

from typing import Literal

from typing_extensions import TypedDict

from builtin_tools.memory.dream.dreaming import Dreaming
from builtin_tools.memory.dream.plan import DreamPlan, StepState
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations
from engine.registry.decorate import tool
from engine.stores.call_views import AuditView
from engine.turn.discovery import Discovery

DreamAction = Literal["plan", "show", "apply", "undo"]


class DreamOutput(TypedDict):
    """The output of dream_mode.

    Attributes:
        plan: The id of the plan.
        complete: False if time ran out before everything was examined.
        steps: A line for each step, starting with the state of the step.
        planned, applied, undone, stale: The number of steps in each state.
    """

    plan: str
    complete: bool
    steps: list[str]
    planned: int
    applied: int
    undone: int
    stale: int


@tool(
    category="memory",
    annotations=Annotations(idempotent=True),
    tier="medium",
    side_effects=("memory_write",),
    required_permission="user",
    timeout_s=120,
    short_description="Consolidate the memory: merge duplicates, close contradictions, learn from failures.",
)
async def dream_mode(ctx: CallContext, action: DreamAction = "plan", plan: str = "") -> Produced[DreamOutput]:
    """Consolidate the user's memories. Use it when the user asks for it, or when work is done.

    `plan` examines the memory and returns a list of steps; it changes nothing. Steps merge facts that say the same,
    close facts that newer ones replace, add what the user often said to the profile, turn repeated failures into
    lessons, hide old notes, and suggest composed skills. `apply` carries out the steps, `undo` reverts them, and `show`
    returns them again. Nothing is deleted. To delete memories, use knowledge_base.

    Args:
        action: What to do.
        plan: The id of a plan, for show, apply and undo. The default is the newest one.
    """
    dreaming = ctx.need(Dreaming)
    if action == "plan":
        calls, tools = ctx.services.get(AuditView), ctx.services.get(Discovery)
        specs = await tools.look_up(await dreaming.called(ctx.turn, calls), ctx.turn) if calls and tools else {}
        ctx.progress("examining the memory", 0.1)
        made = await dreaming.make(ctx.turn, ctx.llm_client, calls, tuple(specs.values()))
        return await _produced(dreaming, made)
    found = await dreaming.get(ctx.turn, plan)
    if found is None:
        raise ToolFailure(
            f"There is no plan {plan!r}. Make one with action plan."
            if plan
            else "There is no plan yet. Make one with action plan.",
            reason="not_found",
            may_have_started=False,
        )
    if action == "apply":
        found = await dreaming.apply(found)
    elif action == "undo":
        found = await dreaming.undo(found)
    return await _produced(dreaming, found, (f"{action}:{found.id}",) if action != "show" else ())


async def _produced(dreaming: Dreaming, plan: DreamPlan, effects: tuple[str, ...] = ()) -> Produced[DreamOutput]:
    lines = await dreaming.lines(plan)
    output = DreamOutput(
        plan=plan.id,
        complete=plan.complete,
        steps=lines,
        planned=plan.count(StepState.PLANNED),
        applied=plan.count(StepState.APPLIED),
        undone=plan.count(StepState.UNDONE),
        stale=plan.count(StepState.STALE),
    )
    head = f"Plan {plan.id}: {len(lines)} steps" if lines else f"Plan {plan.id}: there is nothing to consolidate"
    tail = "" if plan.complete else "\nTime ran out before everything was examined. Apply this plan and make another."
    return Produced(output, "\n".join([f"{head}.", *(f"- {line}" for line in lines)]) + tail, effects)

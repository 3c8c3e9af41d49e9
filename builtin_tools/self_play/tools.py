"""`self_play`, `self_play_loop` and `stop_self_play`: the tools of self-play."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.self_play.cycles import Cycle
from builtin_tools.self_play.play_loop import AFTER, NOW, PlayLoop, outcome
from builtin_tools.self_play.self_play import SelfPlay
from builtin_tools.self_play.store import PlayBusy
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure, refusal
from engine.contract.spec import Annotations
from engine.dispatch.refusals import not_configured
from engine.registry.decorate import tool

WALL_S = 600.0
_ROLL_BACK_S = 30.0  # on top of the time of a cycle, so that it can still be rolled back
_EFFECTS = ("skill_write", "memory_write")
Model = Annotated[str, Field(max_length=200)]


class CycleOutput(TypedDict):
    """A cycle.

    Attributes:
        state: kept, nothing, rolled_back or undone.
        change: What was kept or taken back; "" for nothing.
        held_out: The number of held-out tasks that were compared.
    """

    cycle: int
    state: str
    why: str
    weakness: str
    change: str
    solved: bool
    held_out: int
    tokens: int


class LoopOutput(TypedDict):
    """The loop.

    Attributes:
        cycles: How many of its cycles have ended.
    """

    running: bool
    cycles: int
    why: str


@tool(
    category="learning",
    annotations=Annotations(),
    tier="high",
    cost="expensive",
    requires=("sandbox",),
    side_effects=_EFFECTS,
    required_permission="user",
    timeout_s=WALL_S + _ROLL_BACK_S,
    short_description="Practise once: find a weakness, try to improve, and keep only what a check proves.",
)
async def self_play(ctx: CallContext, model: Model = "") -> Produced[CycleOutput]:
    """Run one cycle of self-training, for at most 600 seconds.

    It picks a weakness from the record (failed calls, lessons that do not help, quarantined or slow skills), states a
    task with a check that runs in a sandbox, and attempts it with the skills and lessons. It then proposes a skill or
    lesson, which is kept only if the check accepts the next attempt and no earlier task becomes worse. The user can
    undo a cycle with `knackbox play undo`. Use it when the user asks you to practise or improve.

    Args:
        model: The name of another model of the configured provider; leave it out for the configured one.
    """
    play = _configured(ctx)
    try:
        cycle = await play.play(ctx.turn, model, ctx.progress)
    except PlayBusy as error:
        raise refusal(str(error), "busy") from error
    effects = (f"kept:cycle {cycle.number}",) if cycle.state.value == "kept" else ()
    return Produced(cycle_output(cycle), outcome(cycle), effects)


@tool(
    category="learning",
    annotations=Annotations(),
    tier="high",
    cost="expensive",
    requires=("sandbox",),
    side_effects=_EFFECTS,
    required_permission="user",
    short_description="Practise in the background, cycle after cycle, until a message or stop_self_play.",
)
async def self_play_loop(
    ctx: CallContext, max_cycles: Annotated[int, Field(ge=0, le=10_000)] = 0, model: Model = ""
) -> Produced[LoopOutput]:
    """Run cycles of self_play in the background, one after the other, while this process runs.

    The loop stops at any message of a user, at stop_self_play, and after `max_cycles`.

    Args:
        max_cycles: Stop after so many cycles; 0 for no limit.
        model: As for self_play.
    """
    _configured(ctx)
    try:
        await ctx.need(PlayLoop).begin(ctx.turn, max_cycles, model)
    except PlayBusy as error:
        raise refusal(str(error), "busy") from error
    text = "The loop plays in the background. It stops at the next message of a user or at stop_self_play."
    return Produced({"running": True, "cycles": 0, "why": ""}, text, ("started:self-play loop",))


@tool(
    category="learning",
    annotations=Annotations(idempotent=True),
    required_permission="user",
    side_effects=("skill_write",),
    short_description="Stop the self-play loop after its current cycle, or at once.",
)
async def stop_self_play(ctx: CallContext, now: bool = False) -> Produced[LoopOutput]:
    """Stop the loop of self_play_loop after its current cycle.

    Args:
        now: Stop at once, and roll the current cycle back.
    """
    loop = ctx.need(PlayLoop)
    running = await loop.stop(NOW if now else AFTER, "It was stopped on request.")
    if running is None:
        return Produced({"running": False, "cycles": 0, "why": ""}, "No loop is running.")
    stopped = await loop.until_stopped() if now else False
    text = "The loop has stopped." if stopped else "The loop stops after its current cycle."
    output: LoopOutput = {"running": not stopped, "cycles": running.cycles, "why": "It was stopped on request."}
    return Produced(output, text, ("stopped:self-play loop",))


def cycle_output(cycle: Cycle) -> CycleOutput:
    """Return a cycle as a JSON object."""
    change = cycle.change
    return {
        "cycle": cycle.number,
        "state": cycle.state.value,
        "why": cycle.why,
        "weakness": cycle.weakness.text if cycle.weakness is not None else "",
        "change": f"{change.kind}: {change.what}" if change is not None else "",
        "solved": cycle.solved,
        "held_out": cycle.held_out.tasks,
        "tokens": cycle.tokens,
    }


def _configured(ctx: CallContext) -> SelfPlay:
    """Return the service.

    Raises:
        ToolFailure: No model is configured, or this call belongs to a trial.
    """
    if ctx.turn.trial:
        raise ToolFailure("A trial cannot play.", may_have_started=False)
    if ctx.llm_client is None:
        raise not_configured("Self-play needs a model. Set [model] in config.toml.")
    return ctx.need(SelfPlay)

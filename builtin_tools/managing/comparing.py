"""The actions of `manage_skills` that compare results: correct, trial and replace."""

import asyncio
from typing import Any, NotRequired

from typing_extensions import TypedDict

from acquired_skills.lifecycle.corrections import shown_call
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.lifecycle.trial import Contestant, SkillTrials, past_arguments
from acquired_skills.model.skill import SkillError, SkillState
from acquired_skills.store.corrected_calls import CorrectedCall
from acquired_skills.store.failed_inputs import visible_user
from acquired_skills.tools.describe import summary
from builtin_tools.managing.listing import PAGE
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.dispatch.refusals import wrong_arguments
from engine.stores.call_views import AuditView


class CorrectedResult(TypedDict):
    """A call and its right result. Without `expect` and `raises`, the right result is not known."""

    arguments: dict[str, Any]
    expect: NotRequired[Any]
    raises: NotRequired[str]


class TrialOutput(TypedDict):
    """The output of trial and replace.

    Attributes:
        unfit: The number of inputs that were skipped because one of the skills does not accept them.
    """

    tried: int
    unfit: int
    differences: list[dict[str, Any]]


async def correct(ctx: CallContext, library: SkillLibrary, name: str, case: CorrectedResult | None) -> Produced:
    if case is None or ("expect" in case and "raises" in case):
        raise wrong_arguments("correct needs `case`: the `arguments` of the call, and `expect` or `raises`.")
    skill = await library.get(name)
    call = shown_call(name, case["arguments"])
    if "expect" not in case and "raises" not in case:
        await library.track.keep_failed(skill, case["arguments"], "reported as wrong", ctx.turn)
        message = f"`{call}` is recorded as a call with a wrong result. `show` lists it for authors of new versions."
        return Produced(summary(skill), message, (f"corrected:skill:{name}",))
    right = CorrectedCall(case["arguments"], case.get("expect"), case.get("raises", ""), user=ctx.turn.user)
    wrong = await library.correct(name, right, ctx.turn.agent_key)
    message = (
        f"`{call}` {wrong}. The next version must give the right result: propose it with create_skill."
        if wrong
        else f"`{call}` gives that result already. Later versions must give it too."
    )
    return Produced(summary(await library.get(name)), message, (f"corrected:skill:{name}",))


async def try_both(ctx: CallContext, library: SkillLibrary, name: str, other: str, *, replace: bool) -> Produced:
    old, new, trials = await library.get(name), await library.get(other), ctx.need(SkillTrials)
    user, view = visible_user(ctx.turn), ctx.need(AuditView)
    rows = [row for each in (name, other) for row in await asyncio.to_thread(view.recent, PAGE, tool=each)]
    past = past_arguments(row["arguments"] for row in rows if user is None or row["user"] == user)
    tried = [Contestant(each, await library.proposal_of(each)) for each in (old, new)]
    found = await trials.run(tried[0], tried[1], user, past)
    lines = [
        f"- {shown_call('', each.arguments)}: `{name}` {each.old}, `{other}` {each.new}"
        f"{f' (right: {each.right})' if each.right else ''}{' WORSE' if each.worse else ''}"
        for each in found.differences
    ]
    lines.insert(0, f"`{name}` and `{other}` differ on {len(lines)} of {len(found.results)} inputs.")
    if not replace:
        return Produced(found.value(), "\n".join(lines))
    try:
        await trials.hand_over(old, new, found)
    except SkillError as error:
        raise ToolFailure("\n".join([str(error), *lines]), reason="skill_not_changed") from error
    await library.set_state(name, SkillState.DISABLED)
    lines.append(f"`{name}` is disabled, and `{other}` replaces it. Action `enable` undoes this.")
    return Produced(found.value(), "\n".join(lines), (f"disabled:skill:{name}",))

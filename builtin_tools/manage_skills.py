"""`manage_skills`: look at acquired skills, switch them off and on, take them away and bring them back."""

import asyncio
import json
from typing import Any, Literal

from typing_extensions import TypedDict

from acquired_skills.composed.suggest import MOST_CALLS, suggest_pipelines
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.provenance import in_one_line, of_call
from acquired_skills.model.skill import Skill, SkillError, SkillState
from acquired_skills.proof.admission_report import report_summary
from acquired_skills.store.failed_inputs import as_tests, visible_user
from acquired_skills.tools.describe import (
    Numbers,
    Stats,
    Summary,
    by_version,
    details,
    needs,
    numbers,
    signature,
    summary,
    text_details,
    text_in_full,
    text_summary,
)
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.registry.decorate import tool
from engine.stores.call_log import CallLog
from engine.turn.discovery import Discovery

_PAGE = 200  # rows of one answer

Action = Literal["list", "show", "delete", "restore", "disable", "enable", "rollback", "stats", "history", "suggest"]


class ShowOutput(TypedDict):
    """Of show. Skills have more fields, and so have instructions, which have no version."""

    name: str
    version: int | None
    state: str
    description: str
    success_rate: float | None


class Version(TypedDict):
    """Of history."""

    version: int
    created: str
    tests: int
    description: str


class SuggestOutput(TypedDict):
    """Of suggest: calls that were repeated, and a pipeline of them for compose_skill."""

    tools: list[str]
    times: int
    pipeline: dict[str, Any]
    notes: list[str]


@tool(
    required_permission="user",
    category="skills",
    side_effects=("skill_write",),
    short_description="List, show, delete, disable, enable or roll back acquired skills.",
)
async def manage_skills(
    ctx: CallContext, action: Action, name: str | None = None, version: int | None = None
) -> Produced[list[Summary] | list[Numbers] | list[SuggestOutput] | list[Version] | ShowOutput | Summary]:
    """Look after the acquired skills, the tools that were taught with create_skill. "Show me your skills" is this tool.

    list: the skills with their states and success rates, a page at a time. show: one with parameters, code, tests and
    what it failed on.
    stats: calls, failures and latency by version. history: the versions kept. disable and enable: off and back on the
    list. delete: take it away; restore undoes that. rollback: an earlier version becomes the current one again.
    suggest: sequences of calls that you repeated, as pipelines for compose_skill.

    Args:
        action: what to do.
        name: the skill; needed for everything but list, stats and suggest. For list: go on after this skill.
        version: for rollback, the version to go back to; otherwise the one before the current.
    """
    library = ctx.need(SkillLibrary)
    try:
        if action == "list":
            return await _list(library, name or "")
        if action == "stats":
            return await _stats(library, name)
        if action == "suggest":
            return await _suggest(ctx)
        if not name:
            raise ToolFailure(
                f"`name` is missing: {action} needs the name of a skill; action `list` shows them.",
                reason="invalid_arguments",
                may_have_started=False,
                end="refused",
            )
        if action == "show":
            return await _show(library, name, visible_user(ctx.turn))
        if action == "history":
            return await _history(library, name)
        return await _change(library, action, name, version, in_one_line(of_call(ctx, "manage_skills")))
    except SkillError as error:
        raise ToolFailure(str(error), reason="skill_not_changed", may_have_started=False) from error


async def _list(library: SkillLibrary, after: str) -> Produced:
    skills, total = await library.page(_PAGE, after), await library.count()
    stats = by_version(await library.stats_of(skills))
    lines = [_line(skill, stats) for skill in skills]
    message = "\n".join([f"{total} skills:", *lines]) if skills else "There are no skills yet: use create_skill."
    if len(skills) == _PAGE:
        more = f"This is one page of {total} skills. Action `list` with name `{skills[-1].name}` gives the next."
        return Produced([summary(skill, stats) for skill in skills], f"{message}\n{more}")
    texts = await asyncio.to_thread(library.instructions.all)
    if texts:
        told = [f"- {one.name}: {' '.join(one.description.split())[:160]}" for one in texts]
        message = "\n".join([message, "Instructions, which are read with action `show` and never called:", *told])
    return Produced([*(summary(skill, stats) for skill in skills), *map(text_summary, texts)], message)


def _line(skill: Skill, stats: Stats | None = None) -> str:
    told = summary(skill, stats)
    rate = "" if told["success_rate"] is None else f", {told['success_rate']:.0%} of {told['calls']} calls succeeded"
    first = " ".join(skill.description.split())[:160]
    return f"- {skill.name} (version {skill.version}, {skill.state}{rate}): {first}"


async def _stats(library: SkillLibrary, name: str | None) -> Produced:
    if name:
        await library.get(name)
    value = [numbers(one) for one in await library.stats(name, _PAGE)]
    lines = [
        f"- {one['name']} version {one['version']}: {one['calls']} calls, {one['successes']} succeeded, "
        f"{one['failures']} failed, {one['uncounted']} not counted, mean {one['mean_ms']} ms"
        for one in value
    ]
    return Produced(value, "\n".join(lines) or "No calls are recorded yet.")


async def _suggest(ctx: CallContext) -> Produced:
    """From the calls of this user; of everybody for admins."""
    user = visible_user(ctx.turn)
    rows = await asyncio.to_thread(ctx.need(CallLog).recent, MOST_CALLS)
    own = [row for row in rows if user is None or row["user"] == user]
    specs = await ctx.need(Discovery).look_up({row["tool"] for row in own}, ctx.turn)
    found = await asyncio.to_thread(suggest_pipelines, own, specs)
    lines = [f"- {' -> '.join(each.tools)}, {each.times} times: {json.dumps(each.pipeline)}" for each in found]
    return Produced([each.value() for each in found], "\n".join(lines) or "No sequence of calls was repeated yet.")


async def _show(library: SkillLibrary, name: str, user: str | None) -> Produced:
    """user: whose failing inputs are shown; None for everybody's."""
    if await library.find(name) is None and library.instructions.has(name):
        text = await asyncio.to_thread(library.instructions.read, name)
        return Produced(text_details(text), text_in_full(text))
    skill = await library.get(name)
    code, tests = await library.code(skill), await library.tests(skill)
    value = details(skill, code, tests, await library.stats(name))
    failed = await library.track.failed_inputs(skill, user)
    value["failed_inputs"] = [dict(each.arguments) for each in failed]
    cases = f"\n\nIt failed on:\n{as_tests(name, failed)}" if failed else ""
    needed = f"\nNeeds {needs(skill)}" if needs(skill) else ""
    origin = f"\nFrom {in_one_line(skill.provenance)}" if skill.provenance else ""
    source = f"Code:\n{value['code']}\n\nTests:\n{value['tests']}"
    proved = f"\nAdmitted with {report_summary(skill.admission)}" if report_summary(skill.admission) else ""
    message = f"{_line(skill)}\nCall: {signature(skill)}{needed}{origin}{proved}\n\n{source}{cases}"
    return Produced(value, message)


async def _history(library: SkillLibrary, name: str) -> Produced:
    versions = await library.history(name)
    value: list[dict[str, Any]] = [
        {"version": one.version, "created": one.created, "tests": one.tests, "description": one.description}
        for one in versions
    ]
    lines = [f"- version {one.version}, {one.created}, {one.tests} tests" for one in versions]
    return Produced(value, "\n".join([f"`{name}` has {len(versions)} versions, the last is current:", *lines]))


async def _change(library: SkillLibrary, action: Action, name: str, version: int | None, by: str) -> Produced:
    match action:
        case "delete":
            skill = await library.delete(name)
            message, did = f"`{name}` is deleted; action `restore` brings it back.", "deleted"
        case "restore":
            skill = await library.restore(name)
            message, did = f"`{name}` version {skill.version} is back ({skill.state}).", "restored"
        case "rollback":
            skill = await library.rollback(name, version, by)
            message, did = f"`{name}` is rolled back; the earlier code is now version {skill.version}.", "rolled_back"
        case "disable":
            skill = await library.set_state(name, SkillState.DISABLED)
            message, did = f"`{name}` is disabled: kept, but not offered until it is enabled.", "disabled"
        case _:
            skill = await library.set_state(name, SkillState.PROBATION)
            message, did = f"`{name}` is enabled and listed again, in probation.", "enabled"
    return Produced(summary(skill), message, (f"{did}:skill:{name}",))

"""`manage_skills`: lists, shows, corrects, compares, disables, deletes and restores acquired skills.

The modules of `builtin_tools.managing` implement the actions.
"""

from typing import Any, Literal

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.provenance import in_one_line, of_call
from acquired_skills.model.skill import SkillError
from acquired_skills.store.failed_inputs import visible_user
from acquired_skills.tools.describe import Numbers, Summary
from builtin_tools.managing.changing import change
from builtin_tools.managing.comparing import CorrectedResult, TrialOutput, correct, try_both
from builtin_tools.managing.drafting import DraftOutput, FunctionOutput, draft
from builtin_tools.managing.listing import ShowOutput, Version, list_skills, show, show_history, show_stats
from builtin_tools.managing.questioning import QuestionsOutput, ask_or_answer
from builtin_tools.managing.suggesting import SuggestOutput, suggest
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.dispatch.refusals import wrong_arguments
from engine.registry.decorate import tool

Action = Literal[
    "list", "show", "delete", "restore", "disable", "enable", "rollback", "stats", "history", "suggest", "correct",
    "trial", "replace", "draft", "questions",
]  # fmt: skip
ReadAction = Literal["show", "stats", "history", "suggest", "draft"]


@tool(
    required_permission="user",
    category="skills",
    side_effects=("skill_write",),
    timeout_s=120,  # a trial calls both skills for each input
    short_description="List, show, correct, delete, disable, enable or roll back acquired skills.",
)
async def manage_skills(
    ctx: CallContext,
    action: Action,
    name: str | None = None,
    *,
    version: int | None = None,
    case: CorrectedResult | None = None,
    other: str | None = None,
    answers: list[dict[str, Any]] | None = None,
) -> Produced[
    TrialOutput
    | list[Summary]
    | list[Numbers]
    | list[SuggestOutput]
    | list[Version]
    | list[FunctionOutput]
    | DraftOutput
    | QuestionsOutput
    | ShowOutput
    | Summary
]:
    """List, inspect and maintain the acquired skills: the tools made with create_skill and compose_skill.

    Use it when the user asks about your skills ("Show me your skills"), before you change a skill, and when a skill
    fails. To run a skill, call it by its name.

    list: the skills with their states and success rates, one page at a time. show: one skill with its parameters,
    code, tests and the inputs it failed on. stats: calls, failures and latency by version. history: the versions that
    are kept. disable and enable: stop and resume offering a skill. delete: remove a skill; restore undoes this.
    rollback: make an earlier version current again. suggest: sequences of calls that you repeated, as pipelines for
    compose_skill. correct: report a wrong result of a skill, when the user corrects it or when a later step fails
    because of it. The right result becomes a case that every later version must satisfy. trial: call a skill and
    another one for the same purpose with the same inputs, and show where they differ. replace: the same, and then
    disable the skill, unless the other one is worse. draft: the functions in the scripts of imported instructions
    that could become skills, and for one of them, code and calls for create_skill. questions: what is still asked
    about a skill that the list marks with open questions. Right answers in `answers` remove the mark.

    Args:
        action: What to do.
        name: Name of the skill. Required except for list, stats and suggest. For list, continue after this skill.
        version: For rollback, the version to return to. The default is the one before the current version.
        case: For correct, the `arguments` of the call, with `expect`, the right value, or `raises`, the right type of
            exception. Leave both out if the right result is not known.
        other: For trial and replace, the name of the skill that might replace `name`. For draft, the function.
        answers: For questions, what the calls should return according to the skill's description, in the form of
            `expected` of create_skill: `[{"arguments": {"number": 4}, "result": "IV"}]`.
    """
    if not name and action not in ("list", "stats", "suggest"):
        raise wrong_arguments(f"`name` is missing: {action} needs the name of a skill. Action `list` shows them.")
    library, named = ctx.need(SkillLibrary), name or ""
    try:
        match action:
            case "list":
                return await list_skills(library, named)
            case "correct":
                return await correct(ctx, library, named, case)
            case "trial" | "replace":
                return await try_both(ctx, library, named, other or "", replace=action == "replace")
            case "questions":
                return await ask_or_answer(ctx, library, named, answers)
            case "show" | "stats" | "history" | "suggest" | "draft":
                return await _shown(ctx, library, action, named, other or "")
            case _:
                return await change(library, action, named, version, in_one_line(of_call(ctx, "manage_skills")))
    except SkillError as error:
        raise ToolFailure(str(error), reason="skill_not_changed", may_have_started=False) from error


async def _shown(ctx: CallContext, library: SkillLibrary, action: ReadAction, name: str, other: str) -> Produced:
    match action:
        case "show":
            return await show(library, name, visible_user(ctx.turn))
        case "stats":
            return await show_stats(library, name or None)
        case "history":
            return await show_history(library, name)
        case "suggest":
            return await suggest(ctx)
        case "draft":
            return await draft(library, name, other)

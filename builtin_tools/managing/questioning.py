"""The action questions of `manage_skills`: shows the open questions of a skill, and takes their answers."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from acquired_skills.lifecycle.approvals import approver
from acquired_skills.lifecycle.asking import shown_question
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.lifecycle.open_questions import OpenQuestions, find_open_questions, proposal_with_answers
from acquired_skills.model.prediction import parse_predictions
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.model.provenance import of_call
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.dispatch.refusals import wrong_arguments
from engine.policy.approval import ApprovalGuard


class QuestionsOutput(TypedDict):
    """The output of questions.

    Attributes:
        open_questions: The number of questions that were open at admission; 0 if none are open.
        questions: The calls to predict, each an object with `arguments`.
        problems: What else keeps the skill on probation.
    """

    name: str
    version: int
    state: str
    open_questions: int
    questions: list[dict[str, Any]]
    problems: list[str]


async def ask_or_answer(
    ctx: CallContext, library: SkillLibrary, name: str, answers: Sequence[dict[str, Any]] | None
) -> Produced:
    """Show the open questions of a skill, or create its next version with answers.

    Raises:
        SkillError: There is no such skill, or its questions cannot be answered.
        ToolFailure: The answers do not settle the questions.
    """
    skill = await library.get(name)
    if answers is None:
        found = await find_open_questions(library, skill, ctx.turn.agent_key)
        return Produced(found.value(), _text(found))
    try:
        predictions = parse_predictions(answers)
    except ValueError as error:
        raise wrong_arguments(f"answers: {error}") from None
    proposal = await proposal_with_answers(library, skill, predictions, of_call(ctx, "manage_skills"))
    ask = approver(ctx.services.get(ApprovalGuard), ctx.call_id, ctx.turn.user)
    try:
        skill = await library.create(proposal, ctx.progress, ask, agent=ctx.turn.agent_key)
    except SkillRefused as refused:
        left = OpenQuestions.after(skill, refused)
        raise ToolFailure(
            _text(left), reason="questions_open", may_have_started=False, output=left.value()
        ) from refused
    message = f"The answers agree with the code. `{name}` version {skill.version} has no open questions."
    return Produced(OpenQuestions(skill).value(), message, (f"created:skill:{skill.name}:{skill.version}",))


def _text(found: OpenQuestions) -> str:
    skill = found.skill
    if not found.count:
        return f"`{skill.name}` version {skill.version} has no open questions."
    lines = [f"`{skill.name}` version {skill.version} stays on probation: {skill.description}"]
    lines += [f"- {each.text}" for each in found.problems]
    if found.questions:
        lines.append(
            "Work out from this description, not by running the code, what these calls return. Send all answers so far "
            "in `answers`."
        )
    return "\n".join([*lines, *(f"- {shown_question(skill.name, each)}" for each in found.questions)])

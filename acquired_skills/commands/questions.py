"""`knackbox skills questions`: shows the open questions of a skill, and takes their answers."""

from collections.abc import Sequence
from typing import Annotated

import typer

from acquired_skills.commands.shared import Name, asking_library, read_predictions, terminal_approver, with_skills
from acquired_skills.lifecycle.asking import AskingLibrary, shown_question
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.lifecycle.open_questions import OpenQuestions, find_open_questions, proposal_with_answers
from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.model.provenance import of_person
from acquired_skills.proof.admission_report import open_questions
from engine.app.engine import Engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, say, visible, wants_json
from engine.policy.forms import PersonForms


def questions(
    ctx: typer.Context,
    name: Name,
    *,
    answers: Annotated[
        str | None,
        typer.Option(
            "--answers",
            metavar="FILE.json",
            help="A file with a JSON list of answers, such as "
            '[{"arguments": {"number": 4}, "result": "IV"}]. - reads stdin.',
        ),
    ] = None,
    no_input: Annotated[bool, typer.Option("--no-input", help="Show the questions, but do not ask them.")] = False,
    as_json: Json = False,
) -> None:
    """Show or answer the open questions of a skill.

    A skill that was imported with weak tests has open questions: what should certain calls return? At a terminal, the
    command asks them. If the answers agree with the code, the skill gets a new version without open questions. If one
    does not, the command asks which of the two is right. Exits with 1 if questions remain after they were asked or
    answered.
    """
    given = read_predictions(answers) if answers else None
    ask = given is None and not no_input and not wants_json(ctx, as_json)

    async def work(engine: Engine) -> tuple[OpenQuestions, bool]:
        library, forms = engine.need(SkillLibrary), engine.need(PersonForms)
        skill = await library.get(name)
        asks = ask and forms.can_ask and skill.state.listed and open_questions(skill.admission) > 0
        if given is None and not asks:
            return await find_open_questions(library, skill), False
        asking = asking_library(engine) if ask else AskingLibrary(library, None, engine.services.clock)
        return await _answered(asking, name, given or (), engine, ctx)

    found, answered = with_skills(ctx, "running the tests in a box", work)
    if wants_json(ctx, as_json):
        emit_json(found.value())
    else:
        _show(found, answered=answered)
    raise typer.Exit(int(Exit.FAILED if answered and found.count else Exit.OK))


async def _answered(
    asking: AskingLibrary, name: str, given: Sequence[Prediction], engine: Engine, ctx: typer.Context
) -> tuple[OpenQuestions, bool]:
    skill = await asking.library.get(name)
    proposal = await proposal_with_answers(asking.library, skill, given, of_person("knackbox skills questions"))
    try:
        return OpenQuestions(await asking.create(proposal, ask=terminal_approver(ctx, engine))), True
    except SkillRefused as refused:
        return OpenQuestions.after(skill, refused), True


def _show(found: OpenQuestions, *, answered: bool) -> None:
    skill = found.skill
    if not found.count:
        how = ": the answers agree with the code" if answered else ""
        emit(f"{skill.name} version {skill.version} has no open questions{how}.")
        return
    many = "" if found.count == 1 else "s"
    emit(visible(f"{skill.name} version {skill.version} has {found.count} open question{many}: {skill.description}"))
    for problem in found.problems:
        emit(visible(f"- {problem.text}"))
    if found.questions:
        emit("According to this description, not to the code, what should these calls return?")
    for each in found.questions:
        emit(visible(f"  {shown_question(skill.name, each)}"))
    if found.questions:
        say(
            f"Answer them at a terminal, or with `knackbox skills questions {skill.name} --answers FILE`: a JSON list "
            "of all answers so far, as in `knackbox skills questions --help`."
        )
    elif answered:
        say(f"{skill.name} is unchanged. If its code is wrong, disable it, or propose a corrected version.")

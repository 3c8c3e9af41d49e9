"""`knackbox skills prove`: turns the functions of imported instructions into skills, one at a time."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from acquired_skills.commands.shared import (
    asking_library,
    report_admission,
    table,
    terminal_approver,
    with_library,
    with_skills,
)
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.model.provenance import of_person
from acquired_skills.model.skill import Skill, SkillMissing
from acquired_skills.model.written_answers import HOW, read_answer
from acquired_skills.portable.drafts import SkillDraft, origin_of
from acquired_skills.portable.script_functions import ScriptFunction, find_function, script_functions
from acquired_skills.store.archive import Files
from engine.app.engine import Engine
from engine.contract.strict_json import JsonError, read_json
from engine.interfaces.cli.shared import Exit, Json, emit_json, fail, read_input, say, wants_json
from engine.policy.forms import Form, FormField, PersonForms

_PATIENCE_S = 3600.0  # time limit in seconds for all answers


def prove(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The name of the instructions, as `knackbox skills list` shows it.")],
    function: Annotated[
        str | None,
        typer.Argument(help="The name of a function, or FILE:FUNCTION. By default, the functions are listed."),
    ] = None,
    *,
    draft: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Propose the draft in this file, with the results you added."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Turn a function from a script of imported instructions into a skill.

    The command proposes calls of the function, and you predict their results. --json prints a draft instead of asking.
    The scripts are not run, and the skill is admitted like any other.
    """
    if draft is not None:
        _propose(ctx, as_json, name, _read(draft, name))
        return
    files = with_library(ctx, "reading the instructions", lambda library: _files(library, name))
    functions = script_functions(files)
    if function is None:
        _list(ctx, as_json, name, functions)
        return
    try:
        found = SkillDraft.of(name, find_function(functions, function))
    except LookupError as error:
        fail(str(error.args[0]), Exit.USAGE)
    if wants_json(ctx, as_json):
        emit_json(found.value())
        return
    if not found.calls:
        fail(
            f"no calls of {found.name} can be proposed, because its parameters have no type hints and its docstring "
            "has no example. Write calls into the draft that --json prints, and propose it with --from.",
            Exit.USAGE,
        )
    _propose(ctx, as_json, name, found, ask=True)


async def _files(library: SkillLibrary, name: str) -> Files:
    if not library.instructions.has(name):
        skill = await library.find(name)
        text = f"{name} is already a skill." if skill else f"There are no instructions `{name[:80]}`."
        raise SkillMissing(f"{text} List the instructions with `knackbox skills list`.")
    return await asyncio.to_thread(library.instructions.files, name)


def _list(ctx: typer.Context, as_json: bool, name: str, functions: Sequence[ScriptFunction]) -> None:
    rows = [
        {"function": each.name, "file": each.file, "why_not": each.why_not or None, "about": each.about}
        for each in functions
    ]
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif not rows:
        say(f"the Python files of {name} have no function that could become a skill.")
    else:
        table(rows, ("function", "file", "why_not", "about"))
        say(f"to turn one of them into a skill: `knackbox skills prove {name} FUNCTION`.")


def _read(source: str, name: str) -> SkillDraft:
    try:
        draft = SkillDraft.parse(read_json(read_input(source, "the draft")))
    except JsonError as error:
        fail(f"{source}: not valid JSON: {error}.", Exit.USAGE)
    except ValueError as error:
        fail(f"{source} is not a draft: {error}", Exit.USAGE)
    if draft.instructions != name:
        fail(f"{source} is a draft from {draft.instructions}, not from {name}.", Exit.USAGE)
    return draft


def _propose(ctx: typer.Context, as_json: bool, name: str, draft: SkillDraft, *, ask: bool = False) -> None:
    async def work(engine: Engine) -> Skill | SkillRefused | ValueError:
        library = asking_library(engine)
        files = await _files(library.library, name)
        try:
            answered = draft.answered(await _answers(engine.need(PersonForms), draft)) if ask else draft
            origin = origin_of(draft.instructions, files, draft.file, draft.name, draft.code)
            proposal = answered.proposal({**of_person("knackbox skills prove"), "drafted_from": origin})
        except ValueError as error:
            return error
        try:
            return await library.create(proposal, ask=terminal_approver(ctx, engine))
        except SkillRefused as refused:
            return answered.without_results(refused)

    result = with_skills(ctx, "running the tests in a box", work)
    if isinstance(result, ValueError):
        fail(str(result), Exit.USAGE)
    report_admission(ctx, as_json, result, "test")


async def _answers(forms: PersonForms, draft: SkillDraft) -> dict[int, Mapping[str, Any]]:
    """Ask the person at the terminal for the results of the proposed calls.

    Raises:
        ValueError: There are no answers, or an answer cannot be parsed.
    """
    fields = [
        FormField(str(number), f"{draft.name}({', '.join(f'{k}={v!r}' for k, v in each['arguments'].items())})", HOW)
        for number, each in enumerate(draft.calls)
    ]
    about = f"`{draft.name}` of {draft.instructions}: {draft.description}\nWhat should these calls return?"
    found = await forms.fill(Form(about, fields), _PATIENCE_S)
    if not found:
        raise ValueError(
            "No results were given. If there is no terminal, add results to the draft that --json prints, and "
            "propose it with --from."
        )
    return {int(number): read_answer(text) for number, text in found.items()}

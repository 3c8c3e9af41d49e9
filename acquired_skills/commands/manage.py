"""`knackbox skills add|delete|restore|disable|enable|rollback|correct`: changes skills."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from acquired_skills.commands.shared import (
    Name,
    asking_library,
    read_predictions,
    report_admission,
    report_change,
    terminal_approver,
    with_library,
    with_skills,
)
from acquired_skills.lifecycle.corrections import shown_call
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.proposal import DEFAULT_TIMEOUT_S, Proposal, SkillRefused
from acquired_skills.model.provenance import in_one_line, of_person
from acquired_skills.model.skill import Skill, SkillMissing, SkillState
from acquired_skills.store.corrected_calls import CorrectedCall
from engine.app.engine import Engine
from engine.contract.failure import ConfigError
from engine.contract.strict_json import JsonError, read_json
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, read_input, visible, wants_json
from sandbox.contract import Language


def add(
    ctx: typer.Context,
    code: Annotated[
        str,
        typer.Argument(metavar="CODE.py", help="The source file. Its function must have the same name as the file."),
    ],
    *,
    tests: Annotated[str, typer.Option("--tests", metavar="TESTS.py", help="The pytest module that proves the skill.")],
    description: Annotated[str, typer.Option("--description", "-d", help="What the skill does and when to use it.")],
    name: Annotated[str | None, typer.Option("--name", help="The skill's name; by default CODE's file name.")] = None,
    example: Annotated[
        list[str] | None,
        typer.Option("--example", "-e", help="An example of a request that the skill answers; repeatable."),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="FILE", help="A module or data file, below the folder of CODE.py; repeatable."),
    ] = None,
    language: Annotated[
        Language,
        typer.Option("--language", help="The language of CODE. For Node and Bash, TESTS is a JSON list of cases."),
    ] = Language.PYTHON,
    breaking: Annotated[bool, typer.Option("--breaking", help="Do not run the tests of the earlier version.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Time limit of one call, in seconds.")
    ] = DEFAULT_TIMEOUT_S,
    expected: Annotated[
        str | None,
        typer.Option(
            "--expected",
            metavar="FILE.json",
            help="A file with a JSON list of predictions that answer earlier questions.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="FILE.py", help="A file with a second, independent implementation."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Propose a skill.

    The skill is stored if its tests prove it in a box. Otherwise the command reports everything that has to be changed.
    """
    proposal = Proposal(
        name or Path(code).stem,
        description,
        read_input(code, "the code").decode("utf-8", "replace"),
        read_input(tests, "the tests").decode("utf-8", "replace"),
        tuple(example or ()),
        breaking,
        timeout,
        of_person("knackbox skills add"),
        read_predictions(expected) if expected else (),
        {_relative(each, code): read_input(str(each), "the file").decode("utf-8", "replace") for each in file or ()},
        language,
        reference=read_input(reference, "the reference").decode("utf-8", "replace") if reference else "",
    )

    async def work(engine: Engine) -> Skill | SkillRefused:
        try:
            return await asking_library(engine).create(proposal, ask=terminal_approver(ctx, engine))
        except SkillRefused as refused:
            return refused

    result = with_skills(ctx, "running the tests in a box", work)
    report_admission(ctx, as_json, result, "test")


def _relative(file: Path, code: str) -> str:
    """Return the path of an extra file, relative to the folder of the code."""
    folder = Path(code).parent
    if not file.is_relative_to(folder):
        fail(f"{file} is not below {folder}, the folder of {Path(code).name}: move it there.", Exit.USAGE)
    return file.relative_to(folder).as_posix()


def delete(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Delete a skill or instructions. `restore` undoes it."""

    async def work(library: SkillLibrary) -> Skill | None:
        if await library.find(name) is None and library.instructions.has(name):
            await asyncio.to_thread(library.instructions.delete, name)
            return None
        return await library.delete(name)

    skill = with_library(ctx, "deleting", work)
    report_change(ctx, as_json, skill, f"{name} is deleted. To restore it: `knackbox skills restore {name}`.", name)


def restore(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Restore the most recently deleted skill, or instructions, of this name."""

    async def work(library: SkillLibrary) -> Skill | None:
        try:
            return await library.restore(name)
        except SkillMissing:
            if not library.instructions.deleted(name):
                raise
            await asyncio.to_thread(library.instructions.restore, name)
            return None

    skill = with_library(ctx, "restoring", work)
    what = f"version {skill.version} is back ({skill.state})" if skill else "is back (instructions)"
    report_change(ctx, as_json, skill, f"{name} {what}.", name)


def disable(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Stop offering a skill, without deleting it."""
    skill = with_library(ctx, "disabling", lambda library: library.set_state(name, SkillState.DISABLED))
    report_change(ctx, as_json, skill, f"{name} is disabled.")


def enable(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Offer a disabled skill again."""
    skill = with_library(ctx, "enabling", lambda library: library.set_state(name, SkillState.PROBATION))
    report_change(ctx, as_json, skill, f"{name} is enabled, on probation.")


def rollback(
    ctx: typer.Context,
    name: Name,
    version: Annotated[
        int | None, typer.Argument(help="The version to return to; by default the one before the current version.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an earlier version current again, under a new version number."""
    skill = with_library(
        ctx,
        "rolling back",
        lambda library: library.rollback(name, version, in_one_line(of_person("knackbox skills rollback"))),
    )
    report_change(ctx, as_json, skill, f"{name} has its earlier code again, as version {skill.version}.")


def correct(
    ctx: typer.Context,
    name: Name,
    arguments: Annotated[str, typer.Argument(help="The arguments of the call, as a JSON object.")],
    expect: Annotated[str | None, typer.Argument(help="The correct value, as JSON.")] = None,
    *,
    raises: Annotated[str, typer.Option("--raises", help="The type of the exception that the call should raise.")] = "",
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw the correction of this call.")] = False,
    as_json: Json = False,
) -> None:
    """Record the correct result of a call. Every later version of the skill must return it."""
    given = _json(arguments, "the arguments")
    if not isinstance(given, dict) or (expect is not None) + bool(raises) + withdraw != 1:
        fail("pass the arguments as a JSON object, and exactly one of EXPECT, --raises and --withdraw.", Exit.USAGE)
    call = CorrectedCall(given, None if expect is None else _json(expect, "the value"), raises)

    async def work(library: SkillLibrary) -> tuple[str, int]:
        if withdraw:
            return "", await asyncio.to_thread(library.track.corrected.withdraw, name, given)
        return await library.correct(name, replace(call, user=of_person("")["user"])), 0

    wrong, withdrawn = with_library(ctx, "making the call", work)
    shown = shown_call(name, given)
    if wants_json(ctx, as_json):
        emit_json({"name": name, "call": shown, "wrong": wrong, "withdrawn": withdrawn})
    elif withdraw:
        emit(visible(f"{shown}: {withdrawn or 'no'} correction{'' if withdrawn == 1 else 's'} withdrawn."))
    else:
        found = wrong or "already returns the correct result"
        emit(visible(f"{shown} {found}. Every later version must return the correct result."))


def _json(text: str, what: str) -> Any:
    try:
        return read_json(text)
    except JsonError as error:
        raise ConfigError(f"{what}: not valid JSON: {error}.") from error

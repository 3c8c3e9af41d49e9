"""`knackbox skills add|delete|restore|disable|enable|rollback`: changes skills."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from acquired_skills.commands.shared import Name, count_of, report_change, with_approver, with_library
from acquired_skills.lifecycle.approvals import Ask
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.proposal import DEFAULT_TIMEOUT_S, Proposal, SkillRefused
from acquired_skills.model.provenance import in_one_line, of_person
from acquired_skills.model.skill import Skill, SkillMissing, SkillState
from acquired_skills.tools.describe import summary
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, read_input, say, wants_json


def add(
    ctx: typer.Context,
    code: Annotated[str, typer.Argument(metavar="CODE.py", help="The skill; its function is named as the file.")],
    *,
    tests: Annotated[str, typer.Option("--tests", metavar="TESTS.py", help="The pytest module that proves it.")],
    description: Annotated[str, typer.Option("--description", "-d", help="What it does and when to use it.")],
    name: Annotated[str | None, typer.Option("--name", help="Its name, if not the file's.")] = None,
    example: Annotated[list[str] | None, typer.Option("--example", "-e", help="A request it answers; repeat.")] = None,
    breaking: Annotated[bool, typer.Option("--breaking", help="Need not pass the earlier version's tests.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds one call may take.")] = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Propose a skill. It is kept if its tests prove it in the box; otherwise everything to change is reported."""
    proposal = Proposal(
        name or Path(code).stem,
        description,
        read_input(code, "the code").decode("utf-8", "replace"),
        read_input(tests, "the tests").decode("utf-8", "replace"),
        tuple(example or ()),
        breaking,
        timeout,
        of_person("knackbox skills add"),
    )

    async def work(library: SkillLibrary, ask: Ask | None) -> Skill | SkillRefused:
        try:
            return await library.create(proposal, ask=ask)
        except SkillRefused as refused:
            return refused

    result = with_approver(ctx, "running the tests in a box", work)
    if isinstance(result, SkillRefused):
        if wants_json(ctx, as_json):
            emit_json({"admitted": False, "problems": [{"part": p.part, "text": p.text} for p in result.problems]})
        else:
            say(str(result))
        raise typer.Exit(int(Exit.FAILED))
    if wants_json(ctx, as_json):
        emit_json({"admitted": True, **summary(result), "parameters": result.parameters})
    else:
        emit(f"{result.name} version {result.version} is admitted: {count_of(result.tests, 'test')} passed.")


def delete(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Delete a skill or instructions; `restore` undoes it."""

    async def work(library: SkillLibrary) -> Skill | None:
        if await library.find(name) is None and library.instructions.has(name):
            await asyncio.to_thread(library.instructions.delete, name)
            return None
        return await library.delete(name)

    skill = with_library(ctx, "deleting", work)
    report_change(ctx, as_json, skill, f"{name} is deleted; `knackbox skills restore {name}` brings it back.", name)


def restore(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Restore the last deleted skill, or instructions, of this name."""

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
    """Keep a skill, but do not offer it."""
    skill = with_library(ctx, "disabling", lambda library: library.set_state(name, SkillState.DISABLED))
    report_change(ctx, as_json, skill, f"{name} is disabled.")


def enable(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Offer a disabled skill again."""
    skill = with_library(ctx, "enabling", lambda library: library.set_state(name, SkillState.PROBATION))
    report_change(ctx, as_json, skill, f"{name} is enabled, in probation.")


def rollback(
    ctx: typer.Context,
    name: Name,
    version: Annotated[int | None, typer.Argument(help="By default the one before the current.")] = None,
    as_json: Json = False,
) -> None:
    """Make an earlier version current again, under a new number."""
    skill = with_library(
        ctx,
        "rolling back",
        lambda library: library.rollback(name, version, in_one_line(of_person("knackbox skills rollback"))),
    )
    report_change(ctx, as_json, skill, f"{name} has its earlier code again, as version {skill.version}.")

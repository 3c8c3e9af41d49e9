"""`knackbox skills add|delete|restore|disable|enable|rollback`: changing what there is."""

from pathlib import Path
from typing import Annotated

import typer

from acquired_skills.commands.shared import Name, told, with_library
from acquired_skills.describe import summary
from acquired_skills.library import SkillLibrary
from acquired_skills.proposal import DEFAULT_TIMEOUT_S, Proposal, SkillRefused
from acquired_skills.skill import Skill, SkillState
from engine.faces.cli.shared import Exit, Json, emit, emit_json, read_input, say, wants_json


def add(
    ctx: typer.Context,
    code: Annotated[str, typer.Argument(metavar="CODE.py", help="The skill; its function is named as the file.")],
    *,
    tests: Annotated[str, typer.Option("--tests", metavar="TESTS.py", help="The pytest module that proves it.")],
    description: Annotated[str, typer.Option("--description", "-d", help="What it does and when to use it.")],
    name: Annotated[str | None, typer.Option("--name", help="When it is not the file's.")] = None,
    example: Annotated[list[str] | None, typer.Option("--example", "-e", help="A request it answers; repeat.")] = None,
    breaking: Annotated[bool, typer.Option("--breaking", help="Need not pass the earlier version's tests.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds one call may take.")] = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Propose a skill. It is kept when its tests prove it in the box; otherwise everything to change is told."""
    proposal = Proposal(
        name or Path(code).stem,
        description,
        read_input(code, "the code").decode("utf-8", "replace"),
        read_input(tests, "the tests").decode("utf-8", "replace"),
        tuple(example or ()),
        breaking,
        timeout,
    )

    async def work(library: SkillLibrary) -> Skill | SkillRefused:
        try:
            return await library.create(proposal)
        except SkillRefused as refused:
            return refused

    result = with_library(ctx, "running the tests in a box", work)
    if isinstance(result, SkillRefused):
        if wants_json(ctx, as_json):
            emit_json({"admitted": False, "problems": [{"part": p.part, "text": p.text} for p in result.problems]})
        else:
            say(str(result))
        raise typer.Exit(int(Exit.FAILED))
    if wants_json(ctx, as_json):
        emit_json({"admitted": True, **summary(result), "parameters": result.parameters})
    else:
        emit(f"{result.name} version {result.version} is admitted: {result.tests} tests passed.")


def delete(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Take a skill away; `restore` undoes it."""
    skill = with_library(ctx, "deleting", lambda library: library.delete(name))
    told(ctx, as_json, skill, f"{name} is deleted; `knackbox skills restore {name}` brings it back.")


def restore(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Bring the last deleted skill of this name back."""
    skill = with_library(ctx, "restoring", lambda library: library.restore(name))
    told(ctx, as_json, skill, f"{name} version {skill.version} is back ({skill.state}).")


def disable(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Keep a skill, but do not offer it."""
    skill = with_library(ctx, "disabling", lambda library: library.set_state(name, SkillState.DISABLED))
    told(ctx, as_json, skill, f"{name} is disabled.")


def enable(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Offer a disabled skill again."""
    skill = with_library(ctx, "enabling", lambda library: library.set_state(name, SkillState.PROBATION))
    told(ctx, as_json, skill, f"{name} is enabled, in probation.")


def rollback(
    ctx: typer.Context,
    name: Name,
    version: Annotated[int | None, typer.Argument(help="Else the one before the current.")] = None,
    as_json: Json = False,
) -> None:
    """Make an earlier version current again, under a new number."""
    skill = with_library(ctx, "rolling back", lambda library: library.rollback(name, version))
    told(ctx, as_json, skill, f"{name} has its earlier code again, as version {skill.version}.")

"""`knackbox skills list|show|history|stats`: shows skills and their statistics."""

import asyncio
from typing import Annotated, Any

import typer

from acquired_skills.commands.shared import Name, table, with_library
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.provenance import in_one_line
from acquired_skills.model.skill import Skill
from acquired_skills.proof.admission_report import report_lines
from acquired_skills.store.failed_inputs import as_tests
from acquired_skills.tools.describe import (
    Summary,
    by_version,
    details,
    marked_state,
    needs,
    numbers,
    signature,
    summary,
    text_details,
    text_in_full,
    text_summary,
)
from engine.interfaces.cli.shared import Json, emit, emit_json, say, visible, wants_json

PAGE = 100  # number of rows on one page
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of rows to show.")]
After = Annotated[str, typer.Option("--after", metavar="NAME", help="Start after the skill with this name.")]


def list_(ctx: typer.Context, limit: Limit = PAGE, after: After = "", as_json: Json = False) -> None:
    """List the skills with their states and statistics, sorted by name."""

    async def work(library: SkillLibrary) -> tuple[list[Summary], int]:
        return await listing(library, limit, after), await library.count()

    rows, total = with_library(ctx, "reading the skills", work)
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif not rows and not after:
        say("there are no skills yet. Make one with `knackbox skills add` or the tool create_skill.")
    else:
        shown = [{**row, "state": marked_state(row)} for row in rows]
        table(shown, ("name", "version", "state", "calls", "success_rate", "description"))
    if len(rows) == limit:
        say(
            f"{limit} of {total} skills are shown. `--after {rows[-1]['name']}` shows the next page, and `--limit` "
            "changes its size."
        )


async def listing(library: SkillLibrary, limit: int, after: str) -> list[Summary]:
    """Return one page of the list, with the skills sorted by name, followed by the instructions."""
    skills = await library.page(limit, after)
    stats = by_version(await library.stats_of(skills))
    rows = [summary(skill, stats) for skill in skills]
    if len(rows) < limit:
        rows += map(text_summary, await asyncio.to_thread(library.instructions.all))
    return rows[:limit]


def show(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show one skill in full, with its parameters, code, tests, and failed inputs."""

    async def work(library: SkillLibrary) -> tuple[Skill | None, dict[str, Any], str]:
        if await library.find(name) is None and library.instructions.has(name):
            text = await asyncio.to_thread(library.instructions.read, name)
            return None, text_details(text), text_in_full(text)
        skill = await library.get(name)
        program, tests = await library.program(skill), await library.tests(skill)
        failed = await library.track.failed_inputs(skill, None)
        found = details(skill, program, tests, await library.stats(name))
        found["failed_inputs"] = [dict(each.arguments) for each in failed]
        found["signed_by"] = await asyncio.to_thread(library.store.signer, skill)
        return skill, found, as_tests(name, failed, skill.kind)

    skill, found, cases = with_library(ctx, "reading the skill", work)
    if wants_json(ctx, as_json):
        emit_json(found)
        return
    if skill is None:
        _emit_visible(cases)
        return
    state = marked_state(summary(skill))
    _emit_visible(f"{signature(skill)}\nversion {skill.version}, {state}, {skill.created}\n\n{skill.description}")
    _emit_visible(f"from {in_one_line(skill.provenance)}\nsigned by {found['signed_by'] or 'nobody'}")
    if needs(skill):
        _emit_visible(f"needs {needs(skill)}")
    _emit_visible("".join(f"- {example}\n" for example in skill.examples))
    _emit_visible("".join(f"{line}\n" for line in ["# how it was admitted", *report_lines(skill.admission)]))
    program, tests = skill.files
    extra = "".join(f"# {path}\n{found['files'][name]}\n" for name, path in skill.extra_paths.items())
    _emit_visible(f"# {program}\n{found['code']}\n{extra}# {tests}\n{found['tests']}")
    if cases:
        _emit_visible(f"# calls that failed\n{cases}")


def _emit_visible(text: str) -> None:
    """Print untrusted text without its terminal control characters."""
    emit(visible(text))


def history(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """List all versions of a skill, with the current one last."""
    versions = with_library(ctx, "reading the versions", lambda library: library.history(name))
    rows = [
        {"version": v.version, "created": v.created, "tests": v.tests, "description": v.description} for v in versions
    ]
    if wants_json(ctx, as_json):
        emit_json(rows)
    else:
        table(rows, ("version", "created", "tests", "description"))


def stats(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="The name of one skill; by default, all skills are shown.")] = None,
    limit: Limit = PAGE,
    after: After = "",
    as_json: Json = False,
) -> None:
    """Show calls, failures and latency of every version."""
    found = with_library(ctx, "counting", lambda library: library.stats(name, limit, after))
    rows = [numbers(one) for one in found]
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif not rows:
        say("no calls are recorded yet.")
    else:
        table(rows, ("name", "version", "calls", "successes", "failures", "uncounted", "mean_ms", "last"))
    if len(rows) == limit:
        say(
            f"{limit} versions are shown. `--after {rows[-1]['name']}` shows the next page, and `--limit` changes its "
            "size."
        )

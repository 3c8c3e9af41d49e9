"""The actions of `manage_skills` that show skills: list, show, stats and history."""

import asyncio
from typing import Any

from typing_extensions import TypedDict

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.provenance import in_one_line
from acquired_skills.model.skill import Skill
from acquired_skills.proof.admission_report import report_summary
from acquired_skills.store.failed_inputs import as_tests
from acquired_skills.tools.describe import (
    Stats,
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
from engine.contract.context import Produced

PAGE = 200  # rows in one result


class ShowOutput(TypedDict):
    """The output of show. Skills and instructions have further fields; version is null for instructions."""

    name: str
    version: int | None
    state: str
    description: str
    success_rate: float | None


class Version(TypedDict):
    """One kept version of a skill, in the output of history."""

    version: int
    created: str
    tests: int
    description: str


async def list_skills(library: SkillLibrary, after: str) -> Produced:
    skills, total = await library.page(PAGE, after), await library.count()
    stats = by_version(await library.stats_of(skills))
    lines = [_line(skill, stats) for skill in skills]
    message = (
        "\n".join([f"{total} skill{'s' if total != 1 else ''}:", *lines])
        if skills
        else "There are no skills yet. create_skill makes one."
    )
    if len(skills) == PAGE:
        more = f"This is one page of {total} skills. Action `list` with name `{skills[-1].name}` returns the next page."
        return Produced([summary(skill, stats) for skill in skills], f"{message}\n{more}")
    texts = await asyncio.to_thread(library.instructions.all)
    if texts:
        rows = [f"- {one.name}: {' '.join(one.description.split())[:160]}" for one in texts]
        message = "\n".join([message, "Instructions, to be read with `read_skill`, not called:", *rows])
    return Produced([*(summary(skill, stats) for skill in skills), *map(text_summary, texts)], message)


def _line(skill: Skill, stats: Stats | None = None) -> str:
    row = summary(skill, stats)
    rate = "" if row["success_rate"] is None else f", {row['success_rate']:.0%} of {row['calls']} calls succeeded"
    description = " ".join(skill.description.split())[:160]
    return f"- {skill.name} (version {skill.version}, {marked_state(row)}{rate}): {description}"


async def show_stats(library: SkillLibrary, name: str | None) -> Produced:
    if name:
        await library.get(name)
    value = [numbers(one) for one in await library.stats(name, PAGE)]
    lines = [
        f"- {one['name']} version {one['version']}: {one['calls']} calls, {one['successes']} succeeded, "
        f"{one['failures']} failed, {one['uncounted']} not counted, mean {one['mean_ms']} ms"
        for one in value
    ]
    return Produced(value, "\n".join(lines) or "No calls are recorded yet.")


async def show(library: SkillLibrary, name: str, user: str | None) -> Produced:
    """Show one skill or one set of instructions.

    Args:
        user: The user whose failed inputs are shown; None for all users.
    """
    if await library.find(name) is None and library.instructions.has(name):
        text = await asyncio.to_thread(library.instructions.read, name)
        return Produced(text_details(text), text_in_full(text))
    skill = await library.get(name)
    program, tests = await library.program(skill), await library.tests(skill)
    value = details(skill, program, tests, await library.stats(name))
    failed = await library.track.failed_inputs(skill, user)
    value["failed_inputs"] = [dict(each.arguments) for each in failed]
    cases = f"\n\nIt failed on:\n{as_tests(name, failed, skill.kind)}" if failed else ""
    requirements = f"\nNeeds {needs(skill)}" if needs(skill) else ""
    origin = f"\nFrom {in_one_line(skill.provenance)}" if skill.provenance else ""
    extra = "".join(f"\n\n{path}:\n{text}" for path, text in value["files"].items())
    source = f"Code:\n{value['code']}{extra}\n\nTests:\n{value['tests']}"
    admitted = f"\nAdmitted with {report_summary(skill.admission)}" if report_summary(skill.admission) else ""
    message = f"{_line(skill)}\nCall: {signature(skill)}{requirements}{origin}{admitted}\n\n{source}{cases}"
    return Produced(value, message)


async def show_history(library: SkillLibrary, name: str) -> Produced:
    versions = await library.history(name)
    value: list[dict[str, Any]] = [
        {"version": one.version, "created": one.created, "tests": one.tests, "description": one.description}
        for one in versions
    ]
    lines = [f"- version {one.version}, {one.created}, {one.tests} tests" for one in versions]
    return Produced(value, "\n".join([f"`{name}` has {len(versions)} versions; the last is current:", *lines]))

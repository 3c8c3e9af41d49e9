"""`knackbox skills …`: what `create_skill` and `manage_skills` do, for people. Entry point of ``knackbox.commands``."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from acquired_skills.describe import details, needs, numbers, signature, summary
from acquired_skills.failed_inputs import as_tests
from acquired_skills.library import SkillLibrary
from acquired_skills.proposal import DEFAULT_TIMEOUT_S, Proposal, SkillRefused
from acquired_skills.reconcile import Reconciled
from acquired_skills.skill import Skill, SkillError, SkillMissing, SkillState
from engine.app.engine import Engine
from engine.contract.failure import ConfigError
from engine.faces.cli.session import with_engine
from engine.faces.cli.shared import Exit, Json, emit, emit_json, fail, read_input, say, wants_json, working
from engine.stores.locks import StoreBusy

T = TypeVar("T")
Name = Annotated[str, typer.Argument(help="The skill, as `knackbox skills list` shows it.")]

app = typer.Typer(
    help="The acquired skills: list, show, add, search, disable, delete, and keep them in order.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def with_library(ctx: typer.Context, label: str, work: Callable[[SkillLibrary], Coroutine[Any, Any, T]]) -> T:
    """Open the engine, do the work on its skills; what cannot be done ends the command with one clear line."""

    async def session(engine: Engine) -> T:
        return await work(engine.need(SkillLibrary))

    try:
        with working(label):
            return with_engine(ctx, session)
    except SkillMissing as error:
        fail(str(error), Exit.USAGE)
    except SkillError as error:
        fail(str(error), Exit.FAILED)
    except StoreBusy as error:
        raise ConfigError(str(error)) from error


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """Every skill with its state and how it did."""

    async def work(library: SkillLibrary) -> list[dict[str, Any]]:
        skills, stats = await library.skills(), await library.stats()
        return [summary(skill, stats) for skill in skills]

    rows = with_library(ctx, "reading the skills", work)
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif not rows:
        say("there are no skills yet; `knackbox skills add` or the tool create_skill makes one.")
    else:
        _table(rows, ("name", "version", "state", "calls", "success_rate", "description"))


@app.command()
def show(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """One skill whole: parameters, code, tests, and what anybody's calls of it failed on."""

    async def work(library: SkillLibrary) -> tuple[Skill, dict[str, Any], str]:
        skill = await library.get(name)
        code, tests = await library.code(skill), await library.tests(skill)
        failed = await library.track.failed_inputs(skill, None)
        found = details(skill, code, tests, await library.stats(name))
        found["failed_inputs"] = [dict(each.arguments) for each in failed]
        return skill, found, as_tests(name, failed)

    skill, found, cases = with_library(ctx, "reading the skill", work)
    if wants_json(ctx, as_json):
        emit_json(found)
        return
    emit(f"{signature(skill)}\nversion {skill.version}, {skill.state}, {skill.created}\n\n{skill.description}")
    if needs(skill):
        emit(f"needs {needs(skill)}")
    emit("".join(f"- {example}\n" for example in skill.examples))
    emit(f"# scripts/{name}.py\n{found['code']}\n# tests/test_{name}.py\n{found['tests']}")
    if cases:
        emit(f"# it failed on\n{cases}")


@app.command()
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


@app.command()
def delete(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Take a skill away; `restore` undoes it."""
    skill = with_library(ctx, "deleting", lambda library: library.delete(name))
    _told(ctx, as_json, skill, f"{name} is deleted; `knackbox skills restore {name}` brings it back.")


@app.command()
def restore(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Bring the last deleted skill of this name back."""
    skill = with_library(ctx, "restoring", lambda library: library.restore(name))
    _told(ctx, as_json, skill, f"{name} version {skill.version} is back ({skill.state}).")


@app.command()
def disable(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Keep a skill, but do not offer it."""
    skill = with_library(ctx, "disabling", lambda library: library.set_state(name, SkillState.DISABLED))
    _told(ctx, as_json, skill, f"{name} is disabled.")


@app.command()
def enable(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Offer a disabled skill again."""
    skill = with_library(ctx, "enabling", lambda library: library.set_state(name, SkillState.PROBATION))
    _told(ctx, as_json, skill, f"{name} is enabled, in probation.")


@app.command()
def rollback(
    ctx: typer.Context,
    name: Name,
    version: Annotated[int | None, typer.Argument(help="Else the one before the current.")] = None,
    as_json: Json = False,
) -> None:
    """Make an earlier version current again, under a new number."""
    skill = with_library(ctx, "rolling back", lambda library: library.rollback(name, version))
    _told(ctx, as_json, skill, f"{name} has its earlier code again, as version {skill.version}.")


@app.command()
def history(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """The versions kept, the current one last."""
    versions = with_library(ctx, "reading the versions", lambda library: library.history(name))
    rows = [
        {"version": v.version, "created": v.created, "tests": v.tests, "description": v.description} for v in versions
    ]
    if wants_json(ctx, as_json):
        emit_json(rows)
    else:
        _table(rows, ("version", "created", "tests", "description"))


@app.command()
def stats(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="One skill; all without it.")] = None,
    as_json: Json = False,
) -> None:
    """Calls, failures and latency of every version."""
    found = with_library(ctx, "counting", lambda library: library.stats(name))
    rows = [numbers(one) for one in found]
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif not rows:
        say("no calls are recorded yet.")
    else:
        _table(rows, ("name", "version", "calls", "successes", "failures", "uncounted", "mean_ms", "last"))


@app.command()
def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="A request, in your own words.")],
    k: Annotated[int | None, typer.Option("-k", min=1, help="How many at most.")] = None,
    as_json: Json = False,
) -> None:
    """The skills that retrieval finds for a request, best first."""
    found = with_library(ctx, "searching", lambda library: library.search(query, k))
    rows = [{**summary(one.skill), "score": round(one.score, 3)} for one in found]
    if wants_json(ctx, as_json):
        emit_json(rows)
    elif not rows:
        say("nothing is found: there is no listed skill.")
    else:
        _table(rows, ("name", "score", "state", "description"))


@app.command()
def verify(ctx: typer.Context, as_json: Json = False) -> None:
    """Read every folder, check its hashes, and make the records agree. Ends with 3 when a skill was set aside."""
    _reconciled(ctx, as_json, with_library(ctx, "reading every skill", lambda library: library.verify()), None)


@app.command()
def reindex(ctx: typer.Context, as_json: Json = False) -> None:
    """As `verify`, then build the index of the listed skills anew."""
    report, indexed = with_library(ctx, "indexing every skill", lambda library: library.reindex())
    _reconciled(ctx, as_json, report, indexed)


def _reconciled(ctx: typer.Context, as_json: bool, report: Reconciled, indexed: int | None) -> None:
    if wants_json(ctx, as_json):
        aside = [{"name": one.name, "reason": one.reason, "kept": str(one.kept)} for one in report.aside]
        emit_json(
            {
                "known": report.known,
                "read": report.read,
                "removed": report.removed,
                "set_aside": aside,
                "foreign": report.foreign,
                "indexed": indexed,
            }
        )
    else:
        for one in report.aside:
            say(f"{one.name} was set aside as {one.kept}: {one.reason}")
        for line in report.foreign:
            say(line)
        counts = f"{report.known + len(report.read)} skills are in order, {len(report.read)} rows were written anew"
        tail = "" if indexed is None else f", {indexed} indexed"
        emit(f"{counts}, {len(report.removed)} removed, {len(report.aside)} set aside{tail}.")
    raise typer.Exit(int(Exit.ENVIRONMENT if report.aside else Exit.OK))


def _told(ctx: typer.Context, as_json: bool, skill: Skill, text: str) -> None:
    if wants_json(ctx, as_json):
        emit_json(summary(skill))
    else:
        emit(text)


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    table = Table(*(column.replace("_", " ") for column in columns), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*("" if row[c] is None else escape(" ".join(str(row[c]).split())) for c in columns))
    Console().print(table)

"""Shared by the commands of `knackbox skills`: opens the library and prints results."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import typer

from acquired_skills.lifecycle.approvals import Ask, approver
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import Skill, SkillError, SkillMissing
from acquired_skills.tools.describe import INSTRUCTIONS, summary
from engine.app.engine import Engine
from engine.contract.failure import ConfigError, ToolFailure
from engine.contract.turn import Turn
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, emit, emit_json, fail, wants_json
from engine.interfaces.cli.spinner import Spinner, working
from engine.interfaces.cli.tables import print_table
from engine.policy.approval import ApprovalGuard
from engine.stores.locks import StoreBusy

T = TypeVar("T")
Count = Callable[[int, int], None]  # how many are done, of how many
Name = Annotated[str, typer.Argument(help="The skill, as `knackbox skills list` shows it.")]


def with_library(ctx: typer.Context, label: str, work: Callable[[SkillLibrary], Coroutine[Any, Any, T]]) -> T:
    """Like `with_skills`, for work on the library alone."""

    async def session(library: SkillLibrary, _: Ask | None) -> T:
        return await work(library)

    return with_approver(ctx, label, session)


def with_approver(
    ctx: typer.Context, label: str, work: Callable[[SkillLibrary, Ask | None], Coroutine[Any, Any, T]]
) -> T:
    """Like `with_library`, for work that may ask the person at the terminal to approve what a skill declares."""

    async def session(engine: Engine) -> T:
        return await work(engine.need(SkillLibrary), terminal_approver(ctx, engine))

    return with_skills(ctx, label, session)


def terminal_approver(ctx: typer.Context, engine: Engine) -> Ask | None:
    """Return a function that asks the person at the terminal; None without a terminal."""
    return approver(engine.need(ApprovalGuard), f"skills {ctx.info_name}", Turn().user)


def with_skills(ctx: typer.Context, label: str, work: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
    """Open the engine and do the work on its skills. A failure ends the command with one clear line."""
    return _with_spinner(ctx, label, lambda engine, _: work(engine))


def with_counts(ctx: typer.Context, label: str, work: Callable[[SkillLibrary, Count], Coroutine[Any, Any, T]]) -> T:
    """Like `with_library`, for work that reports its progress, which the spinner shows."""

    async def session(engine: Engine, spinner: Spinner) -> T:
        return await work(engine.need(SkillLibrary), lambda done, of: spinner.tell(f"{done} of {of}"))

    return _with_spinner(ctx, label, session)


def _with_spinner(ctx: typer.Context, label: str, work: Callable[[Engine, Spinner], Coroutine[Any, Any, T]]) -> T:
    try:
        with working(label) as spinner:
            return with_engine(ctx, lambda engine: work(engine, spinner), spinner)
    except SkillMissing as error:
        fail(str(error), Exit.USAGE)
    except SkillError as error:
        fail(str(error), Exit.FAILED)
    except ToolFailure as error:  # of approval
        fail(str(error), Exit.FAILED)
    except StoreBusy as error:
        raise ConfigError(str(error)) from error


def report_change(ctx: typer.Context, as_json: bool, skill: Skill | None, text: str, name: str = "") -> None:
    """Print what was done. skill: None for instructions, whose name is `name`."""
    if wants_json(ctx, as_json):
        emit_json(summary(skill) if skill else {"name": name, "state": INSTRUCTIONS})
    else:
        emit(text)


def count_of(number: int, what: str) -> str:
    """``1 test``, ``2 tests``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def table(rows: Sequence[Mapping[str, Any]], columns: tuple[str, ...]) -> None:
    """Print the rows as a table on stdout, each on one line if it fits."""
    cells = [["" if row[c] is None else " ".join(str(row[c]).split()) for c in columns] for row in rows]
    print_table([column.replace("_", " ") for column in columns], cells)

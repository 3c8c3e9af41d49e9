"""Helpers of the commands `knackbox skills …`, which open the library and print results."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import typer

from acquired_skills.lifecycle.approvals import Ask, approver
from acquired_skills.lifecycle.asking import AskingLibrary
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.prediction import Prediction, parse_predictions
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.model.skill import Skill, SkillError, SkillMissing
from acquired_skills.proof.admission_report import report_notes
from acquired_skills.tools.describe import INSTRUCTIONS, summary
from engine.app.engine import Engine
from engine.contract.failure import ConfigError, ToolFailure
from engine.contract.strict_json import read_json
from engine.contract.turn import Turn
from engine.interfaces.cli.progress_bar import ProgressBar
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, emit, emit_json, fail, read_input, say, wants_json
from engine.interfaces.cli.spinner import shown_later, working
from engine.interfaces.cli.tables import print_table
from engine.policy.approval import ApprovalGuard
from engine.policy.forms import PersonForms
from engine.stores.locks import StoreBusy

T = TypeVar("T")
Count = Callable[[int, int], None]  # called with the number of finished items and the total
Name = Annotated[str, typer.Argument(help="The name of the skill, as `knackbox skills list` shows it.")]


def with_library(ctx: typer.Context, label: str, work: Callable[[SkillLibrary], Coroutine[Any, Any, T]]) -> T:
    """Open the engine and run `work` on its library of skills, like `with_skills`."""
    return with_skills(ctx, label, lambda engine: work(engine.need(SkillLibrary)))


def asking_library(engine: Engine) -> AskingLibrary:
    """Return a library that asks the person at the terminal the questions that an admission raises."""
    return AskingLibrary(engine.need(SkillLibrary), engine.need(PersonForms), engine.services.clock)


def terminal_approver(ctx: typer.Context, engine: Engine) -> Ask | None:
    """Return a function that asks the person at the terminal for approval, or None if there is no terminal."""
    return approver(engine.need(ApprovalGuard), f"skills {ctx.info_name}", Turn().user)


def with_skills(ctx: typer.Context, label: str, work: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
    """Open the engine and run `work` on it. A failure ends the command with a one-line message."""
    with reported_failures(), working(label) as spinner:
        return with_engine(ctx, work, spinner)


def with_counts(ctx: typer.Context, label: str, work: Callable[[Engine, Count], Coroutine[Any, Any, T]]) -> T:
    """Open the engine and run `work` on it, with a progress bar.

    Args:
        work: Called with the engine, and with a function that it calls to report the finished items and the total.
    """
    with reported_failures(), shown_later(ProgressBar(label)) as bar:
        return with_engine(ctx, lambda engine: work(engine, bar.count), bar)


@contextmanager
def reported_failures() -> Iterator[None]:
    """End the command with a one-line message if the code in the `with` block fails."""
    try:
        yield
    except SkillMissing as error:
        fail(str(error), Exit.USAGE)
    except SkillError as error:
        fail(str(error), Exit.FAILED)
    except ToolFailure as error:  # raised when approval is refused or impossible
        fail(str(error), Exit.FAILED)
    except StoreBusy as error:
        raise ConfigError(str(error)) from error


def read_predictions(source: str) -> tuple[Prediction, ...]:
    """Read a JSON list of predictions from a file, or from stdin for ``-``. End the command if it is not one."""
    try:
        found = read_json(read_input(source, "the answers"))
        return parse_predictions(found if isinstance(found, list) else [found])
    except (ValueError, RecursionError) as error:
        fail(f"{source} is not a list of predictions: {error}", Exit.USAGE)


def report_change(ctx: typer.Context, as_json: bool, skill: Skill | None, text: str, name: str = "") -> None:
    """Print the result of a change.

    Args:
        skill: The changed skill; None for instructions.
        text: A sentence about the change.
        name: The name of the changed instructions.
    """
    if wants_json(ctx, as_json):
        emit_json(summary(skill) if skill else {"name": name, "state": INSTRUCTIONS})
    else:
        emit(text)


def report_admission(ctx: typer.Context, as_json: bool, result: Skill | SkillRefused, proof: str) -> None:
    """Print the admitted skill. If it was refused, print the problems and end the command with an exit code.

    Args:
        proof: The word for the evidence of the skill: ``test`` or ``case``.
    """
    if isinstance(result, SkillRefused):
        if wants_json(ctx, as_json):
            problems = [{"part": p.part, "text": p.text} for p in result.problems]
            questions = [{"arguments": q.arguments, "disputed": q.disputed} for q in result.questions]
            emit_json({"admitted": False, "problems": problems, "questions": questions})
        else:
            say(str(result))
        raise typer.Exit(int(Exit.FAILED))
    if wants_json(ctx, as_json):
        notes = report_notes(result.admission)
        emit_json({"admitted": True, **summary(result), "parameters": result.parameters, "notes": notes})
    else:
        proofs = f"{result.tests} {proof}{'' if result.tests == 1 else 's'}"
        emit(f"{result.name} version {result.version} is admitted: {proofs} passed.")
        for note in report_notes(result.admission):
            say(f"Note: {note}")


def table(rows: Sequence[Mapping[str, Any]], columns: tuple[str, ...]) -> None:
    """Print rows as a table on stdout, each on one line if it fits."""
    cells = [["" if row[c] is None else " ".join(str(row[c]).split()) for c in columns] for row in rows]
    print_table([column.replace("_", " ") for column in columns], cells)

"""`knackbox undo`: shows what calls changed in a workspace, and undoes it."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from engine.app.undo import open_workspace_undo
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.tables import print_table
from engine.interfaces.cli.undo_text import as_object, differences, line_of
from engine.stores.clock import SystemClock
from engine.stores.undo.undo_plan import PlannedPath, UndoStep
from engine.stores.undo.undoing import Undoable, UndoTarget, WorkspacePlan, WorkspaceUndo

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def undo(
    ctx: typer.Context,
    target: Annotated[
        str | None, typer.Argument(metavar="[RUN|CALL|UNDO]", help="The run, call or earlier undo to undo.")
    ] = None,
    *,
    listed: Annotated[bool, typer.Option("--list", "-l", help="List what can be undone.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many to list.")] = 20,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Undo without asking.")] = False,
    later: Annotated[
        bool, typer.Option("--later", help="Also undo what the same run or agent changed after the call.")
    ] = False,
    unsure: Annotated[
        bool, typer.Option("--unsure", help="Also undo changes that others may have made at the same time.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Undo what a run or a call changed in its workspace, after showing the changes.

    Files that a person has changed since are left as they are, and listed. An undo can itself be undone. Without a
    target, what can be undone is listed. With --json, nothing is undone without --yes.
    """
    to_json = wants_json(ctx, as_json)
    home, settings = settings_of(ctx)
    home.create()
    with open_workspace_undo(home, settings, SystemClock()) as undoing:
        if listed or target is None:
            _show_list(undoing.undoable(limit), to_json=to_json)
            return
        wanted = UndoTarget(target, later=later, unsure=unsure)
        plans = undoing.plan(wanted)
        if not to_json:
            _show_plans(undoing, plans)
        if not any(each.restores for each in _paths(plans)):
            if to_json:
                emit_json(_result(target, plans))
            else:
                say("there is nothing to undo.")
            return
        if to_json and not yes:
            emit_json(_result(target, plans))
            return
        if not yes and not _agreed(plans):
            say("nothing was undone.")
            return
        done = undoing.undo(wanted, plans)
    _report(target, done, to_json=to_json)


def _show_list(found: Sequence[Undoable], *, to_json: bool) -> None:
    if to_json:
        emit_json({"undoable": [{**_fields(each), "workspaces": list(each.workspaces)} for each in found]})
        return
    if not found:
        say("no changes are recorded. They are recorded for runs and calls from now on, unless [undo] disables it.")
        return
    rows = [(each.id, each.kind, each.ts[:19], str(each.paths), each.by) for each in found]
    print_table(("id", "what", "when (UTC)", "paths", "by"), rows)


def _fields(found: Undoable) -> dict[str, Any]:
    return {"id": found.id, "kind": found.kind, "ts": found.ts, "paths": found.paths, "by": found.by}


def _show_plans(undoing: WorkspaceUndo, plans: Sequence[WorkspacePlan]) -> None:
    for plan in plans:
        restored = [each for each in plan.paths if each.restores]
        left = [each for each in plan.paths if not each.restores]
        if restored:
            emit(f"In {plan.workspace}:")
            for each in restored:
                emit(line_of(each))
            emit(differences(undoing.contents, restored))
        if left:
            emit("Left as they are:")
            for each in left:
                emit(f"{line_of(each)}: {each.reason}")


def _agreed(plans: Sequence[WorkspacePlan]) -> bool:
    """Ask whether to undo. End the command if nobody can be asked."""
    if not sys.stdin.isatty():
        fail(
            "nobody can be asked, because stdin is not a terminal. To undo without being asked, add --yes.", Exit.USAGE
        )
    count = sum(each.restores for each in _paths(plans))
    return typer.confirm(f"Undo these {count} changes?", err=True)


def _report(target: str, done: Sequence[WorkspacePlan], *, to_json: bool) -> None:
    failed = [each for each in _paths(done) if each.step is UndoStep.FAILED]
    if to_json:
        emit_json(_result(target, done))
    else:
        restored = sum(each.restores for each in _paths(done))
        ids = " and ".join(f"knackbox undo {each.undo_id}" for each in done if each.undo_id)
        say(f"undone: {restored} changes.{f' To take this back: {ids}.' if ids else ''}")
        for each in failed:
            say(f"not undone: {each.path}: {each.reason}")
    if failed:
        raise typer.Exit(int(Exit.FAILED))


def _result(target: str, plans: Sequence[WorkspacePlan]) -> dict[str, Any]:
    return {
        "target": target,
        "workspaces": [
            {
                "workspace": str(plan.workspace),
                "undo": plan.undo_id or None,
                "changes": [as_object(each) for each in plan.paths],
            }
            for plan in plans
        ],
    }


def _paths(plans: Sequence[WorkspacePlan]) -> list[PlannedPath]:
    return [each for plan in plans for each in plan.paths]

"""`WorkspaceUndo`: lists what can be undone, shows what an undo would change, and undoes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.contract.failure import ConfigError, UnknownName
from engine.stores.undo.change_sets import ChangeSet, ChangingCall
from engine.stores.undo.change_store import ChangeRows
from engine.stores.undo.recorder import ChangeRecorder, WatchedWorkspace
from engine.stores.undo.restoring import Restorer
from engine.stores.undo.scan import WorkspaceTooLarge
from engine.stores.undo.undo_plan import PlannedPath, plan_undo


class UndoRefused(ConfigError):
    """An undo is not possible now. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class UndoTarget:
    """What is to be undone.

    Attributes:
        id: The id of a run, a call, or an earlier undo (``"undo-12"``).
        later: Whether to undo what the same run, or without one the same agent, has changed after the call, too.
        unsure: Whether to undo changes that others may have made, too.
    """

    id: str
    later: bool = False
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class Undoable:
    """Something that can be undone.

    Attributes:
        kind: ``"run"``, ``"call"`` or ``"undo"``.
        ts: When its first changes were recorded, UTC, ISO 8601.
        by: The tools that made the changes; for an undo, what was undone.
        paths: How many paths were changed.
        workspaces: The root folders of the workspaces.
    """

    id: str
    kind: str
    ts: str
    by: str
    paths: int
    workspaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkspacePlan:
    """What an undo changes in one workspace, or has changed.

    Attributes:
        paths: The paths that differ from what they were before.
        undo_id: The id of the undo, by which it can itself be undone; "" if nothing was changed.
    """

    workspace: Path
    paths: tuple[PlannedPath, ...]
    undo_id: str = ""


@dataclass(frozen=True, slots=True)
class _Selected:
    """Change sets, and which calls they are selected for."""

    sets: tuple[ChangeSet, ...]
    chosen: Callable[[ChangingCall], bool]


class WorkspaceUndo:
    """Undoes changes of workspaces. Every method blocks.

    Attributes:
        contents: The contents of the files before and after the changes.
    """

    def __init__(self, recorder: ChangeRecorder) -> None:
        self._recorder = recorder
        self.contents = recorder.contents

    def undoable(self, limit: int) -> list[Undoable]:
        """Return what can be undone, newest first: runs, calls without a run, and earlier undos."""
        found: dict[tuple[str, str], list[ChangeSet]] = {}
        for each in self._sets():
            keys = {("run", call.run) if call.run else ("call", call.call_id) for call in each.calls}
            for key in keys or {("undo", each.undo_id)}:
                found.setdefault(key, []).append(each)
        newest = sorted(found.items(), key=lambda item: item[1][-1].number, reverse=True)[:limit]
        return [_undoable(kind, name, sets) for (kind, name), sets in newest]

    def plan(self, target: UndoTarget) -> list[WorkspacePlan]:
        """Return what an undo would change, for each workspace.

        Raises:
            UnknownName: Nothing is recorded under this id.
            UndoRefused: A call is running in the workspace, or it no longer exists.
        """
        return [self._one(target, root, None) for root in self._roots(target)]

    def undo(self, target: UndoTarget, shown: Sequence[WorkspacePlan]) -> list[WorkspacePlan]:
        """Undo what was planned. A path for which something else would now be done is left as it is.

        Args:
            target: What is to be undone.
            shown: What `plan` has returned, and a person has seen.

        Raises:
            UnknownName, UndoRefused: As in `plan`.
            StoreBusy, ConfigError: The store cannot be written. Nothing was changed.
        """
        return [self._one(target, each.workspace, each.paths) for each in shown]

    def _one(self, target: UndoTarget, root: Path, shown: Sequence[PlannedPath] | None) -> WorkspacePlan:
        """Plan the undo of one workspace, and restore the paths in `shown`, unless it is None."""
        if not root.is_dir():
            raise UndoRefused(f"The workspace {root} does not exist any more, so nothing in it can be undone.")
        recorder = self._recorder
        try:
            with recorder.locked(root) as workspace:
                with recorder.scanned(workspace) as rows:
                    plans = self._plan(target, workspace, rows)
                    chosen = [each for each in plans if each.restores and each in (shown or ())]
                    if not chosen:
                        return WorkspacePlan(root, tuple(plans))
                    changes = [each.change for each in chosen]
                    number = rows.add(workspace.number, changes, recorder.now(), undone=target.id, complete=False)
                restorer = Restorer(root, recorder.contents, workspace.files, number)
                failed = {each.path: each for each in restorer.restore(chosen)}
                with recorder.scanned(workspace):
                    pass
        except WorkspaceTooLarge as error:
            raise UndoRefused(str(error)) from error
        made = len(failed) < len(chosen)
        return WorkspacePlan(
            root, tuple(failed.get(each.path, each) for each in plans), f"undo-{number}" if made else ""
        )

    def _plan(self, target: UndoTarget, workspace: WatchedWorkspace, rows: ChangeRows) -> list[PlannedPath]:
        running = rows.running(workspace.number)
        if running:
            call = running[0].call
            raise UndoRefused(
                f"{call.tool} (call {call.call_id}) is running in {workspace.root}. Wait until it has ended, or cancel "
                "it, then undo."
            )
        sets = rows.change_sets(workspace.number)
        selected = _select(sets, target)
        return plan_undo(selected.sets, sets, workspace.files, selected.chosen, unsure=target.unsure)

    def _roots(self, target: UndoTarget) -> list[Path]:
        selected = _select(self._sets(), target)
        return [Path(root) for root in dict.fromkeys(each.workspace for each in selected.sets)]

    def _sets(self) -> list[ChangeSet]:
        with self._recorder.store.reading() as rows:
            return rows.change_sets()


def _select(sets: Sequence[ChangeSet], target: UndoTarget) -> _Selected:
    """Return the change sets of a target.

    Raises:
        UnknownName: Nothing is recorded under this id.
    """
    undo = next((each for each in sets if each.undone and each.undo_id == target.id), None)
    if undo is not None:
        return _Selected((undo,), lambda _: True)
    calls = [call for each in sets for call in each.calls]
    chosen: Callable[[ChangingCall], bool]
    if any(call.run == target.id for call in calls if call.run):
        chosen = lambda call: call.run == target.id  # noqa: E731 -- one of several
    else:
        named = [call for call in calls if call.call_id == target.id]
        if not named:
            raise UnknownName(
                f"No changes are recorded for {target.id!r}: it is no run, call or undo, or it changed nothing, or the "
                "record was deleted because of its age. knackbox undo --list shows what can be undone."
            )
        newest = max(named, key=lambda call: call.ts)  # callers choose the ids of calls, and may use one again
        chosen = lambda call: _belongs(call, newest, target)  # noqa: E731 -- one of several
    return _Selected(tuple(each for each in sets if any(map(chosen, each.calls))), chosen)


def _belongs(call: ChangingCall, newest: ChangingCall, target: UndoTarget) -> bool:
    same = (call.run, call.user, call.agent) == (newest.run, newest.user, newest.agent)
    if newest.includes(call):
        # A run that continues after an interruption makes the same call again.
        return call.ts >= newest.ts or (same and bool(call.run))
    return target.later and same and call.ts >= newest.ts


def _undoable(kind: str, name: str, sets: Sequence[ChangeSet]) -> Undoable:
    tools = dict.fromkeys(call.tool for each in sets for call in each.calls if name in (call.run, call.call_id))
    by = ", ".join(tools) or f"undo of {sets[0].undone}"
    paths = {(each.workspace, change.path) for each in sets for change in each.changes}
    return Undoable(name, kind, sets[0].ts, by, len(paths), tuple(dict.fromkeys(each.workspace for each in sets)))

"""Plans an undo: for each path that was changed, what it becomes again, or why it is left as it is. Pure functions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from engine.stores.undo.change_sets import ChangeSet, ChangingCall
from engine.stores.undo.file_state import FileState, KnownFile
from engine.stores.undo.scan import StateChange

Chosen = Callable[[ChangingCall], bool]


class UndoStep(StrEnum):
    """What an undo does with a path.

    Attributes:
        RESTORE: It gets back its earlier state, or is deleted if it did not exist.
        CHANGED_SINCE: Left as it is, because somebody has changed it since.
        UNSURE: Left as it is, because somebody else may have made the change. A person can include it.
        NOT_KEPT: Left as it is, because the earlier or the present content is not in the store.
        FAILED: It could not be restored.
    """

    RESTORE = "restore"
    CHANGED_SINCE = "changed_since"
    UNSURE = "unsure"
    NOT_KEPT = "not_kept"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PlannedPath:
    """One path of an undo.

    Attributes:
        now: Its present state; None if it does not exist.
        wanted: The state before the change.
        reason: Why it is left as it is, or what else to know about it; "" for nothing.
    """

    path: str
    now: FileState | None
    wanted: FileState | None
    step: UndoStep
    reason: str = ""

    @property
    def restores(self) -> bool:
        return self.step is UndoStep.RESTORE

    @property
    def change(self) -> StateChange:
        """The change that the undo makes."""
        return StateChange(self.path, self.now, self.wanted)


def plan_undo(
    selected: Sequence[ChangeSet],
    later: Sequence[ChangeSet],
    files: Mapping[str, KnownFile],
    chosen: Chosen,
    *,
    unsure: bool = False,
) -> list[PlannedPath]:
    """Plan to undo change sets of one workspace.

    Args:
        selected: The change sets, oldest first.
        later: All change sets of the workspace, which explain conflicts.
        files: The present files.
        chosen: Returns whether the changes of a call are to be undone.
        unsure: Whether to undo changes that others may have made, too.

    Returns:
        The paths that differ from what they were, sorted.
    """
    histories: dict[str, list[tuple[ChangeSet, StateChange]]] = {}
    for each in selected:
        for change in each.changes:
            histories.setdefault(change.path, []).append((each, change))
    planned = [_plan_path(path, history, files, chosen, unsure=unsure) for path, history in sorted(histories.items())]
    found = {each.path: each for each in planned if each is not None}
    last = max((each.number for each in selected), default=0)
    found = {
        path: _explained(each, [one for one in later if one.number > last and not one.undone])
        for path, each in found.items()
    }
    return list(_with_folders(found, files).values())


def _plan_path(
    path: str,
    history: Sequence[tuple[ChangeSet, StateChange]],
    files: Mapping[str, KnownFile],
    chosen: Chosen,
    *,
    unsure: bool,
) -> PlannedPath | None:
    """Plan one path. Its changes are followed backwards as far as nobody else changed it in between."""
    known = files.get(path)
    now = known.state if known is not None else None
    first = len(history) - 1
    while first > 0 and history[first - 1][1].after == history[first][1].before:
        first -= 1
    wanted, last = history[first][1].before, history[-1][1].after
    if now == wanted:
        return None
    doubt = next((why for one, _ in history[first:] if (why := doubt_about(one, chosen))), "")
    between = "as somebody else left it between two of the changes" if first > 0 else ""
    step, reason = UndoStep.RESTORE, between or doubt
    if now != last:
        step, reason = UndoStep.CHANGED_SINCE, "it has been changed since"
    elif doubt and not unsure:
        step, reason = UndoStep.UNSURE, doubt
    elif wanted is not None and not wanted.kept:
        step, reason = UndoStep.NOT_KEPT, f"its earlier {_what_was_not_kept(wanted)}"
    elif now is not None and not now.kept:
        step, reason = UndoStep.NOT_KEPT, f"its present {_what_was_not_kept(now)}"
    return PlannedPath(path, now, wanted, step, reason)


def doubt_about(changes: ChangeSet, chosen: Chosen) -> str:
    """Return why others than the chosen calls may have made some of the changes; "" if only these can have."""
    if changes.doubt:
        return changes.doubt
    other = next((each for each in changes.calls if not chosen(each)), None)
    if other is None:
        return ""
    return f"{other.tool} (call {other.call_id}) ran at the same time and may have made this change"


def _what_was_not_kept(state: FileState) -> str:
    if state.kind == "other":
        return "state is not that of a file, folder or link, so it cannot be restored"
    return f"content ({state.size:,} bytes) was not kept: too large, unreadable, or no room in the store"


def _explained(plan: PlannedPath, later: Iterable[ChangeSet]) -> PlannedPath:
    """Name the later call that changed a path, if one did."""
    if plan.step is not UndoStep.CHANGED_SINCE:
        return plan
    for each in later:
        if each.calls and any(change.path == plan.path for change in each.changes):
            call = each.calls[-1]
            return replace(plan, reason=f"{call.tool} (call {call.call_id}) has changed it since")
    return plan


def _with_folders(found: dict[str, PlannedPath], files: Mapping[str, KnownFile]) -> dict[str, PlannedPath]:
    """Leave folders whose remaining entries would be lost, and entries whose folder would not exist."""
    entries: dict[str, list[str]] = {}
    for path in files:
        entries.setdefault(_parent(path), []).append(path)
    for path in sorted(found, key=_depth, reverse=True):
        plan = found[path]
        goes = plan.restores and plan.now is not None and plan.now.kind == "folder" and not _is_folder(plan.wanted)
        if goes and not all(_will_be(each, found, files) is None for each in entries.get(path, ())):
            reason = "the folder contains files that are not part of this"
            found[path] = replace(plan, step=UndoStep.CHANGED_SINCE, reason=reason)
    for path in sorted(found, key=_depth):
        plan, parent = found[path], _parent(path)
        needed = plan.restores and plan.wanted is not None and parent
        if needed and not _is_folder(_will_be(parent, found, files)):
            found[path] = replace(plan, step=UndoStep.CHANGED_SINCE, reason=f"there is no folder {parent!r} any more")
    return found


def _will_be(path: str, found: Mapping[str, PlannedPath], files: Mapping[str, KnownFile]) -> FileState | None:
    plan = found.get(path)
    if plan is not None and plan.restores:
        return plan.wanted
    known = files.get(path)
    return known.state if known is not None else None


def _is_folder(state: FileState | None) -> bool:
    return state is not None and state.kind == "folder"


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _depth(path: str) -> int:
    return path.count("/")

"""Restores the states of paths in a workspace. No link is followed, and what has changed meanwhile is left as it is."""

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from engine.stores.atomic import TEMPORARY, rename_new_at
from engine.stores.undo.file_state import FileState, KnownFile
from engine.stores.undo.kept_contents import KeptContents
from engine.stores.undo.scan import StateChange
from engine.stores.undo.undo_plan import PlannedPath, UndoStep

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER = 0o700  # what the engine needs to work in a folder


_Work = Callable[[int, str, PlannedPath], None]


class _Changed(Exception):
    """A path has been changed after it was scanned."""


class Restorer:
    """Restores paths in one workspace, which the caller has locked and scanned."""

    def __init__(self, root: Path, contents: KeptContents, files: Mapping[str, KnownFile], undo: int) -> None:
        """Create a restorer.

        Args:
            root: The workspace.
            contents: The kept contents.
            files: The files as just scanned.
            undo: The number of the undo.
        """
        self._root = root
        self._temporary = _temporary_name(undo)
        self._contents = contents
        self._files = files

    def restore(self, plans: Sequence[PlannedPath]) -> list[PlannedPath]:
        """Restore paths in an order in which folders are empty before they go, and exist before they are filled.

        Returns:
            The paths that could not be restored, with the reasons.
        """
        failed: dict[str, PlannedPath] = {}
        down = [(_kind(each.now), _kind(each.wanted), each) for each in sorted(plans, key=_depth)]
        up = down[::-1]
        steps: list[tuple[list[PlannedPath], _Work]] = [
            ([each for now, new, each in down if now == new == "folder"], self._open_up),
            ([each for now, new, each in up if now in ("file", "link") and new in ("", "folder")], self._unlink),
            ([each for now, new, each in up if now == "folder" != new], self._remove_folder),
            ([each for now, new, each in down if now != "folder" == new], self._make_folder),
            ([each for _, new, each in down if new in ("file", "link")], self._put),
            ([each for _, new, each in up if new == "folder"], self._set_mode),
        ]
        for chosen, work in steps:
            for plan in chosen:
                if plan.path not in failed:
                    reason = self._try(work, plan)
                    if reason:
                        failed[plan.path] = replace(plan, step=UndoStep.FAILED, reason=reason)
        return list(failed.values())

    def _try(self, work: _Work, plan: PlannedPath) -> str:
        """Do one step, and return why it failed; "" if it did not."""
        try:
            with _opened_folder_of(self._root, plan.path) as (folder, name):
                work(folder, name, plan)
        except _Changed:
            return "it was changed during the undo"
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _open_up(self, folder: int, name: str, plan: PlannedPath) -> None:
        """Let the engine work in a folder whose mode is restored at the end."""
        if plan.now is not None:
            _set_folder_mode(folder, name, plan.now.mode | _OWNER)

    def _unlink(self, folder: int, name: str, plan: PlannedPath) -> None:
        self._check(folder, name, plan)
        os.unlink(name, dir_fd=folder)

    def _remove_folder(self, folder: int, name: str, _plan: PlannedPath) -> None:
        os.rmdir(name, dir_fd=folder)

    def _make_folder(self, folder: int, name: str, plan: PlannedPath) -> None:
        if plan.wanted is not None:
            os.mkdir(name, plan.wanted.mode | _OWNER, dir_fd=folder)
            _set_folder_mode(folder, name, plan.wanted.mode | _OWNER)  # whatever the umask is

    def _set_mode(self, folder: int, name: str, plan: PlannedPath) -> None:
        if plan.wanted is not None:
            _set_folder_mode(folder, name, plan.wanted.mode)

    def _put(self, folder: int, name: str, plan: PlannedPath) -> None:
        wanted = plan.wanted
        if wanted is None:
            return
        here = plan.now is not None and plan.now.kind != "folder"
        if plan.now is not None and plan.now == replace(wanted, mode=plan.now.mode):
            self._check(folder, name, plan)
            _set_file_mode(folder, name, wanted.mode)
            return
        temporary = self._temporary
        try:
            self._prepare(folder, temporary, wanted)
            if here:
                self._check(folder, name, plan, replaces=True)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            else:
                rename_new_at(folder, temporary, name)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)

    def _prepare(self, folder: int, temporary: str, wanted: FileState) -> None:
        """Create the file or link under a temporary name."""
        if wanted.kind == "link":
            os.symlink(wanted.content, os.fsencode(temporary), dir_fd=folder)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with (
            self._contents.opened(wanted.content) as source,
            open(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as target,  # noqa: PTH123 -- a descriptor
        ):
            shutil.copyfileobj(source, target)
            target.flush()
            os.fchmod(target.fileno(), wanted.mode)
            os.fsync(target.fileno())

    def _check(self, folder: int, name: str, plan: PlannedPath, *, replaces: bool = False) -> None:
        """Check that a path is still what was scanned.

        Raises:
            _Changed: It is not.
            OSError: It is to be replaced, but it has other names (hard links), which would keep the content.
        """
        known = self._files.get(plan.path)
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if known is None or (found.st_ino, found.st_ctime_ns) != (known.inode, known.changed_ns):
            raise _Changed
        if replaces and found.st_nlink > 1:
            raise OSError("the file has several names (hard links), so its content was not replaced")


def clean_up(root: Path, undo: int, changes: Iterable[StateChange]) -> None:
    """Remove the temporary file of an undo that was killed, and restore the modes of folders that it has opened up.

    Args:
        root: The workspace.
        undo: The number of the undo.
        changes: The changes that it was to make.
    """
    for parent in {each.path.rpartition("/")[0] for each in changes}:
        temporary = _temporary_name(undo)
        with suppress(OSError), _opened_folder_of(root, f"{parent}/{temporary}".lstrip("/")) as (folder, _):
            os.unlink(temporary, dir_fd=folder)
    for each in changes:
        state = each.before if _kind(each.before) == "folder" else each.after
        if state is not None and state.kind == "folder" and state.mode & _OWNER != _OWNER:
            with suppress(OSError), _opened_folder_of(root, each.path) as (folder, name):
                if stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) == state.mode | _OWNER:
                    _set_folder_mode(folder, name, state.mode)


@contextmanager
def _opened_folder_of(root: Path, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder of a path below the workspace, and yield its descriptor and the name of the path."""
    *parts, name = path.split("/")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            below = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


def _temporary_name(undo: int) -> str:
    return f"{TEMPORARY}undo-{undo}"


def _depth(plan: PlannedPath) -> int:
    return plan.path.count("/")


def _kind(state: FileState | None) -> str:
    return state.kind if state is not None else ""


def _set_folder_mode(parent: int, name: str, mode: int) -> None:
    folder = os.open(name, _FOLDER, dir_fd=parent)
    try:
        os.fchmod(folder, mode)
    finally:
        os.close(folder)


def _set_file_mode(parent: int, name: str, mode: int) -> None:
    """Set the mode of a file. It is not opened, because its mode may forbid that; a link is not followed."""
    # os.chmod cannot do this without following links on Linux before 6.6. The path of a descriptor can.
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101 -- not the path of a file
    finally:
        os.close(descriptor)

"""`ChangeRecorder`: records which calls change which files of a workspace, so that the changes can be undone (CODE-9).

A workspace is scanned before and after each call that may change it. What differs between two scans was changed by the
calls that ran meanwhile, or by others if none ran. The files before a call are stored before it begins, so that the
changes of a call whose engine was killed are found by the next scan.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from engine.contract.context import Clock
from engine.stores.engine_lock import EngineLock
from engine.stores.locks import FileLock, StoreBusy
from engine.stores.undo.change_sets import ChangingCall
from engine.stores.undo.change_store import ChangeRows, ChangeStore, UnfinishedCall
from engine.stores.undo.file_state import KnownFile
from engine.stores.undo.kept_contents import KeptContents
from engine.stores.undo.restoring import clean_up
from engine.stores.undo.retention import prune
from engine.stores.undo.scan import StateChange, WorkspaceScan, WorkspaceScanner, WorkspaceTooLarge, too_large
from engine.stores.undo.touched_paths import TouchedPaths

_log = logging.getLogger("knackbox.undo")

# After a call, a workspace may have this many times as many files as before it, and is still scanned.
_GROWTH = 10
_LOOK_AGAIN_S = 600.0  # a workspace with too many files is not scanned before the next calls during this time
_IN_MEMORY = 16  # workspaces
_FULL = 0.9  # the share of the store's limit at which old changes are deleted
_PRUNE_S = 60.0  # the shortest time between two such deletions
_PRUNE_EVERY_S = 24 * 3600.0
KILLED = "the engine was killed during a call, so these may also be changes that others made since then"


@dataclass(frozen=True, slots=True)
class UndoLimits:
    """The limits of the record of changes.

    Attributes:
        days: How long changes can be undone.
        store_bytes: The size of all kept contents.
        file_bytes: The size of the largest file that is kept.
        files: The most files in a workspace whose changes are recorded.
    """

    days: float = 30.0
    store_bytes: int = 1 << 30
    file_bytes: int = 32 << 20
    files: int = 20_000


@dataclass(slots=True)
class WatchedWorkspace:
    """What is kept in memory about a workspace.

    Attributes:
        number: Its number in the database.
        generation: The generation of `files`.
    """

    root: Path
    number: int
    scanner: WorkspaceScanner
    lock: FileLock
    generation: int = -1
    files: dict[str, KnownFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WatchedCall:
    """A call that was begun with `ChangeRecorder.begin`."""

    root: Path
    number: int


class ChangeRecorder:
    """Records changes of workspaces. Threads share it, and processes share its folder. Every method blocks."""

    def __init__(self, folder: Path, lock: EngineLock, clock: Clock, limits: UndoLimits, *, home: Path) -> None:
        """Open the store, or create it.

        Args:
            folder: The folder of the store, readable only by its owner.
            lock: The lock of this engine.
            clock: The source of time.
            limits: The limits.
            home: A folder that is not recorded if it is within a workspace.

        Raises:
            ConfigError: The database is lost, damaged or unusable.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.limits = limits
        self.contents = KeptContents(folder, file_bytes=limits.file_bytes, store_bytes=limits.store_bytes)
        self.store = ChangeStore(folder / "undo.db")
        self._folder = folder
        self._lock = lock
        self._clock = clock
        self._home = home
        self._workspaces: dict[Path, WatchedWorkspace] = {}
        self._touched: dict[int, TouchedPaths] = {}
        self._too_many: dict[Path, float] = {}
        self._late: set[int] = set()  # calls that have ended, although that could not be stored
        self._prune_after = 0.0

    def close(self) -> None:
        self.store.close()
        self.contents.close()

    def now(self) -> str:
        """Return the current time, as it is stored."""
        return self._clock.now().isoformat(timespec="milliseconds")

    def begin(self, root: Path, call: ChangingCall, touched: TouchedPaths) -> WatchedCall:
        """Scan a workspace and record that a call begins to change it.

        Args:
            root: The workspace.
            call: The call.
            touched: The paths that the call writes through the workspace object, which are added later.

        Raises:
            WorkspaceTooLarge: The workspace has too many files, so the changes of the call are not recorded.
            OSError, StoreBusy, ConfigError: The workspace cannot be scanned, or the store cannot be written.
        """
        until = self._too_many.get(root)
        if until is not None and self._clock.monotonic() < until:
            raise too_large(root, self.limits.files)
        try:
            with self.locked(root) as workspace, self.scanned(workspace, most=self.limits.files) as rows:
                number = rows.begin_call(workspace.number, call, self._lock.id)
                self._touched[number] = touched
        except WorkspaceTooLarge:
            self._too_many[root] = self._clock.monotonic() + _LOOK_AGAIN_S
            raise
        self._too_many.pop(root, None)
        return WatchedCall(root, number)

    def end(self, call: WatchedCall) -> None:
        """Scan the workspace again, and record what the call has changed.

        Raises:
            WorkspaceTooLarge: The workspace has too many files now. What the call has changed is not recorded.
            OSError, StoreBusy, ConfigError: As in `begin`. The next scan records the changes.
        """
        try:
            with self.locked(call.root) as workspace, self.scanned(workspace) as rows:
                rows.end_calls([call.number])
        except WorkspaceTooLarge:
            self._touched.pop(call.number, None)
            with self.store.transaction() as rows:
                rows.end_calls([call.number])
            raise
        except Exception:
            self._late.add(call.number)
            raise
        self._touched.pop(call.number, None)
        with suppress(StoreBusy):  # another process is scanning; there will be another opportunity
            self._check_size()

    @contextmanager
    def locked(self, root: Path) -> Iterator[WatchedWorkspace]:
        """Prevent others from scanning a workspace, and contents from being removed, during the block.

        Raises:
            StoreBusy: Another process has been scanning it for too long.
        """
        workspace = self._workspace(root)
        with workspace.lock.exclusive(), self.contents.adding():
            yield workspace

    @contextmanager
    def scanned(self, workspace: WatchedWorkspace, *, most: int | None = None) -> Iterator[ChangeRows]:
        """Scan a locked workspace, record the changes, and yield the transaction, which the block can continue.

        Raises:
            WorkspaceTooLarge: There are more than `most` files; by default ten times the limit.
            OSError, StoreBusy, ConfigError: As in `begin`.
        """
        with self.store.reading() as rows:
            if rows.generation(workspace.number) != workspace.generation:
                workspace.files = rows.files(workspace.number)
                workspace.generation = rows.generation(workspace.number)
            killed = rows.change_sets(workspace.number, incomplete=True)
        for undo in killed:
            clean_up(workspace.root, undo.number, undo.changes)
        limit = most if most is not None else _GROWTH * self.limits.files
        scan = workspace.scanner.scan(workspace.files, limit)
        with self.store.transaction() as rows:
            generation = self._record(workspace, scan, rows)
            before = workspace.files, workspace.generation
            workspace.files, workspace.generation = scan.files, generation
            try:
                yield rows
            except BaseException:
                workspace.files, workspace.generation = before
                raise

    def reconcile(self) -> None:
        """Record what calls and undos have changed whose engines were killed. Errors are logged."""
        with self.store.reading() as rows:
            roots = rows.roots(unfinished=True)
        for root in roots:
            try:
                if root.is_dir():
                    with self.locked(root) as workspace, self.scanned(workspace):
                        pass
            except (OSError, WorkspaceTooLarge) as error:
                _log.warning("What a killed engine changed in %s could not be recorded: %s", root, error)

    def prune_if_due(self) -> None:
        """Prune, unless this was done within the last day."""
        mark = self._folder / ".pruned"
        with suppress(FileNotFoundError):
            if 0 <= time.time() - mark.stat().st_mtime < _PRUNE_EVERY_S:
                return
        self.prune()
        mark.touch(mode=0o600)

    def prune(self) -> None:
        """Delete old changes, and the contents that only they need."""
        oldest = self._clock.now() - timedelta(days=self.limits.days)
        with self.contents.removing():
            prune(self.store, self.contents, oldest.isoformat())

    def _check_size(self) -> None:
        """Prune if the store is nearly full."""
        full = self.contents.total_bytes() > _FULL * self.limits.store_bytes
        if full and self._clock.monotonic() >= self._prune_after:
            self._prune_after = self._clock.monotonic() + _PRUNE_S
            self.prune()

    def _workspace(self, root: Path) -> WatchedWorkspace:
        found = self._workspaces.get(root)
        if found is None:
            with self.store.transaction() as rows:
                number = rows.workspace(root, self.now())
            scanner = WorkspaceScanner(root, self.contents, omit=self._home)
            found = WatchedWorkspace(root, number, scanner, FileLock(self._folder / f"{number}.lock"))
            self._workspaces[root] = found
            if len(self._workspaces) > _IN_MEMORY:
                self._workspaces.pop(next(iter(self._workspaces)))
        return found

    def _record(self, workspace: WatchedWorkspace, scan: WorkspaceScan, rows: ChangeRows) -> int:
        """Store a scan and its changes, and return the new generation."""
        now = self.now()
        running = rows.running(workspace.number)
        dead = [each for each in running if each.engine != self._lock.id and not self._lock.is_running(each.engine)]
        planned = rows.change_sets(workspace.number, incomplete=True)
        for undo in planned:
            done = [each for each in undo.changes if _state(scan, each.path) == each.after]
            rows.finish(undo.number, done)
        own = {each.path for undo in planned for each in undo.changes}
        for calls, changes in self._by_calls(running, [each for each in scan.changes if each.path not in own]):
            numbers = {each.number for each in calls}
            doubt = KILLED if any(each.number in numbers for each in dead) else ""
            rows.add(workspace.number, changes, now, calls=numbers, doubt=doubt)
        for each in running:
            if each.number in self._late:
                self._touched.pop(each.number, None)
        rows.end_calls(each.number for each in running if each in dead or each.number in self._late)
        return rows.update(workspace.number, scan, now) if scan.updated else rows.generation(workspace.number)

    def _by_calls(
        self, running: Sequence[UnfinishedCall], changes: Sequence[StateChange]
    ) -> list[tuple[tuple[UnfinishedCall, ...], list[StateChange]]]:
        """Group changes by the calls that may have made them. Changes that no call can have made are omitted."""
        found: dict[tuple[int, ...], tuple[tuple[UnfinishedCall, ...], list[StateChange]]] = {}
        for change in changes if running else ():
            calls = tuple(each for each in running if self._may_have_changed(each, change))
            if calls:
                group = found.setdefault(tuple(each.number for each in calls), (calls, []))
                group[1].append(change)
        return list(found.values())

    def _may_have_changed(self, running: UnfinishedCall, change: StateChange) -> bool:
        touched = self._touched.get(running.number)
        return running.call.programs or touched is None or touched.explain(change)


def _state(scan: WorkspaceScan, path: str) -> object:
    known = scan.files.get(path)
    return known.state if known is not None else None

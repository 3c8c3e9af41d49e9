"""A workspace with a recorder, in which tests play the agent and a person."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from engine.stores.engine_lock import EngineLock
from engine.stores.undo.change_sets import ChangingCall
from engine.stores.undo.recorder import ChangeRecorder, UndoLimits
from engine.stores.undo.touched_paths import TouchedPaths
from engine.stores.undo.undo_plan import PlannedPath
from engine.stores.undo.undoing import UndoTarget, WorkspacePlan, WorkspaceUndo

Snapshot = dict[str, tuple[str, int, bytes]]


class StepClock:
    """A clock that advances by a second whenever it is read, and when a test says so."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 2, tzinfo=UTC)

    def now(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now

    def monotonic(self) -> float:
        return self._now.timestamp()

    def advance(self, by: timedelta) -> None:
        self._now += by


class UndoFixture:
    """A workspace, and the store that records its changes."""

    def __init__(self, folder: Path, limits: UndoLimits | None = None) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.store = folder / "undo"
        self.clock = StepClock()
        self.lock = EngineLock(folder / "engines")
        self.limits = limits or UndoLimits()
        self.recorder = ChangeRecorder(self.store, self.lock, self.clock, self.limits, home=folder / "home")
        self.undoing = WorkspaceUndo(self.recorder)
        self._ids = count(1)
        self._closed = False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.recorder.close()
            self.lock.close()

    def changing(self, run: str = "", *, call_id: str = "", programs: bool = True) -> ChangingCall:
        named = call_id or f"call{next(self._ids)}"
        return ChangingCall(named, "execute", run, "local", "main", self.recorder.now(), programs)

    @contextmanager
    def call(self, run: str = "", *, call_id: str = "", programs: bool = True) -> Iterator[TouchedPaths]:
        """Make the changes in the block those of a call."""
        touched = TouchedPaths()
        begun = self.recorder.begin(self.workspace, self.changing(run, call_id=call_id, programs=programs), touched)
        try:
            yield touched
        finally:
            self.recorder.end(begun)

    def run(self, run: str, *changes: Callable[[], Any]) -> None:
        """Make changes in one call of a run."""
        with self.call(run):
            for change in changes:
                change()

    def plan(self, target: str, **options: bool) -> list[PlannedPath]:
        return [each for plan in self.undoing.plan(UndoTarget(target, **options)) for each in plan.paths]

    def undo(self, target: str, **options: bool) -> WorkspacePlan:
        """Undo everything in the workspace that can be undone."""
        wanted = UndoTarget(target, **options)
        (done,) = self.undoing.undo(wanted, self.undoing.plan(wanted))
        return done

    def path(self, name: str) -> Path:
        return self.workspace / name

    def write(self, name: str, content: str | bytes) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def snapshot(self) -> Snapshot:
        return snapshot(self.workspace)


def snapshot(root: Path) -> Snapshot:
    """Return the kind, mode and content of everything below a folder."""
    found: Snapshot = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        name = str(path.relative_to(root))
        if stat.S_ISLNK(status.st_mode):
            found[name] = ("link", 0, os.fsencode(path.readlink()))
        elif stat.S_ISDIR(status.st_mode):
            found[name] = ("folder", mode, b"")
        elif stat.S_ISREG(status.st_mode):
            found[name] = ("file", mode, path.read_bytes())
        else:
            found[name] = ("other", mode, b"")
    return found

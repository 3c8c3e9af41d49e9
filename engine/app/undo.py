"""Opens the record of changes of a home, for engines and for `knackbox undo`."""

from collections.abc import Iterator
from contextlib import contextmanager

from engine.app.home import Home
from engine.app.settings import Settings
from engine.contract.context import Clock
from engine.stores.engine_lock import EngineLock
from engine.stores.undo.recorder import ChangeRecorder, UndoLimits
from engine.stores.undo.undoing import WorkspaceUndo


def opened_recorder(home: Home, settings: Settings, lock: EngineLock, clock: Clock) -> ChangeRecorder:
    """Open the recorder, record what killed engines have changed, and delete old changes. Blocks.

    Raises:
        ConfigError: The database is lost, damaged or unusable.
    """
    chosen = settings.undo
    limits = UndoLimits(chosen.days, chosen.store_bytes, chosen.file_bytes, chosen.files)
    recorder = ChangeRecorder(home.undo, lock, clock, limits, home=home.root)
    recorder.reconcile()
    recorder.prune_if_due()
    return recorder


@contextmanager
def open_workspace_undo(home: Home, settings: Settings, clock: Clock) -> Iterator[WorkspaceUndo]:
    """Open what `knackbox undo` needs, without an engine.

    Raises:
        ConfigError: The database is lost, damaged or unusable.
    """
    lock = EngineLock(home.engines)
    try:
        recorder = opened_recorder(home, settings, lock, clock)
        try:
            yield WorkspaceUndo(recorder)
        finally:
            recorder.close()
    finally:
        lock.close()

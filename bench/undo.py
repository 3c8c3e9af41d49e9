"""Times what recording changes for undo adds to a call, in workspaces of different sizes.

"unchanged" is a call that changes nothing, and "one changed" a call that writes one file: the scans before and after
it, and the transactions of the store. "first" is the first call in a workspace, which copies all its files.
"""

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.table import show
from bench.timing import Series
from engine.stores.clock import SystemClock
from engine.stores.engine_lock import EngineLock
from engine.stores.undo.change_sets import ChangingCall
from engine.stores.undo.recorder import ChangeRecorder, UndoLimits
from engine.stores.undo.touched_paths import TouchedPaths

SIZES = (100, 1_000, 10_000)
FILES_PER_FOLDER = 50
FILE_BYTES = 2_000


class UndoHome:
    """A workspace with many files, and stores of its changes."""

    def __init__(self, folder: Path, size: int) -> None:
        self.workspace = folder / "workspace"
        for number in range(size):
            path = self.workspace / f"{number // FILES_PER_FOLDER}" / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"{number} ".encode() * (FILE_BYTES // (len(str(number)) + 1)))
        self._folder = folder
        self._lock = EngineLock(folder / "engines")
        self._ids = itertools.count()
        self._recorder = self._new()
        self.unchanged()

    def first(self) -> None:
        """Make the first call with a new store."""
        recorder = self._new()
        self._call(recorder, lambda: None)
        recorder.close()

    def unchanged(self) -> None:
        self._call(self._recorder, lambda: None)

    def one_changed(self) -> None:
        self._call(self._recorder, lambda: (self.workspace / "0" / "0.txt").write_text(f"changed {next(self._ids)}"))

    def close(self) -> None:
        self._recorder.close()
        self._lock.close()

    def _new(self) -> ChangeRecorder:
        store = self._folder / f"undo{next(self._ids)}"
        return ChangeRecorder(store, self._lock, SystemClock(), UndoLimits(), home=self._folder / "home")

    def _call(self, recorder: ChangeRecorder, work: Callable[[], Any]) -> None:
        call = ChangingCall(str(next(self._ids)), "execute", "run", "local", "main", recorder.now(), programs=True)
        begun = recorder.begin(self.workspace, call, TouchedPaths())
        work()
        recorder.end(begun)


def bench(rounds: int, console: Console) -> list[dict[str, Any]]:
    """Measure every size, `rounds` times in turn, and print a table."""
    times: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, Progress(console=console, transient=True) as progress:
        homes = {size: UndoHome(Path(folder) / str(size), size) for size in SIZES}
        time.sleep(0.1)  # until the files count as settled
        task = progress.add_task("undo", total=rounds)
        for number in range(rounds):
            for size, home in homes.items():
                work = {"unchanged": home.unchanged, "one changed": home.one_changed}
                if number < max(1, rounds // 10):
                    work["first"] = home.first
                for code, run in work.items():
                    began = time.perf_counter()
                    run()
                    times.setdefault((code, size), []).append((time.perf_counter() - began) * 1e3)
            progress.advance(task)
        for home in homes.values():
            home.close()
    series = {key: Series(key[0], f"{key[1]:,} files", tuple(values)) for key, values in sorted(times.items())}
    rows = [
        {"what": "undo", **each.as_dict(), "ratio": each.p50 / series["unchanged", size].p50}
        for (_, size), each in series.items()
    ]
    title = "Recording changes for undo, per call (ms)"
    show(console, rows, "undo", title, "code", "p50_ms", "p95_ms", ratio="to unchanged")
    return rows

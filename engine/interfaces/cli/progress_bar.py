"""`ProgressBar`: a progress bar on stderr for work on a known number of items."""

from typing import TYPE_CHECKING

from engine.interfaces.cli.spinner import Shown, Spinner

if TYPE_CHECKING:
    from rich.progress import TaskID
    from rich.text import Text


class ProgressBar(Spinner):
    """Shows how many items are finished, and how long the remaining items will take."""

    def __init__(self, label: str = "") -> None:
        """Create a hidden bar.

        Args:
            label: The name of the work. A bar without a label is never shown.
        """
        super().__init__(label)
        self._bar: _RichBar | None = None
        self._count = 0, 0

    def count(self, done: int, of: int) -> None:
        """Show that `done` items out of `of` are finished."""
        with self._lock:
            self._count = done, of
            if self._bar is not None:
                self._bar.count(done, of)

    def _new_status(self) -> Shown:
        self._bar = _RichBar(self._label)
        self._bar.count(*self._count)
        return self._bar


class _RichBar:
    """Adapts a `rich.progress.Progress` with one task to the `Shown` protocol, so that `Spinner` can show it."""

    def __init__(self, label: str) -> None:
        from rich.console import Console  # noqa: PLC0415 -- most commands end before a bar must be shown
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 -- for the same reason

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress: Progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task: TaskID = self._progress.add_task(label, total=None)

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

    def update(self, status: "Text", /) -> None:
        """Change the text before the bar."""
        self._progress.update(self._task, description=status.plain)

    def count(self, done: int, of: int) -> None:
        self._progress.update(self._task, completed=done, total=of or None)

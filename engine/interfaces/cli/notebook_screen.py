"""`NotebookScreen`: shows the outputs of a running notebook as text, and a progress bar while a cell prints nothing."""

import asyncio
import re
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from engine.interfaces.cli.spinner import SPINNER_AFTER_S

# Control characters except colours, tab, line feed and carriage return. They could make a terminal display text that
# was never printed.
_CONTROLS = re.compile(r"(\x1b\[[0-9;:]*m)|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


class NotebookScreen:
    """Prints outputs: results and displays to stdout, tracebacks to stderr, and streams to the stream of the same name.

    Use it only in the event loop in which the notebook runs.
    """

    def __init__(self, cells: Sequence[int], *, shows: bool) -> None:
        """Prepare the screen without printing.

        Args:
            cells: The indices of the cells that will run.
            shows: Whether outputs are printed.
        """
        self._cells = cells
        self._shows = shows
        console = Console(stderr=True)
        columns = (TextColumn("cell"), MofNCompleteColumn(), BarColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task("", total=len(cells))
        self._is_terminal = console.is_terminal
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._hide()

    def cell(self, index: int) -> None:
        """Show that a cell starts."""
        self._bar.update(self._task, completed=self._cells.index(index) + 1)
        self._show_soon()

    def output(self, kind: str, text: str) -> None:
        """Print an output of the running cell.

        Args:
            kind: stdout, stderr, result, display or error.
            text: The output.

        Raises:
            OSError: The reader of the stream has exited.
        """
        if not self._shows:
            return
        self._hide()
        if kind not in {"stdout", "stderr"} and not text.endswith("\n"):
            text += "\n"
        target = sys.stderr if kind in {"stderr", "error"} else sys.stdout
        target.buffer.write(_presentable(text, target, colours=kind != "error").encode("utf-8", "replace"))
        target.buffer.flush()
        if text.endswith("\n"):  # otherwise the progress bar would appear within the line
            self._show_soon()

    def _show_soon(self) -> None:
        if self._is_terminal and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SPINNER_AFTER_S, self._bar.start)

    def _hide(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._bar.stop()


def _presentable(text: str, target: TextIO, *, colours: bool) -> str:
    """Return the text as it is written to `target`.

    If `target` is a terminal, dangerous control characters are removed. Otherwise, only colour codes are removed, and
    only if `colours` is False.
    """
    if target.isatty():
        return _CONTROLS.sub(r"\1", text)
    return text if colours else _COLOURS.sub("", text)

"""`working`: a spinner on stderr for whatever takes more than a second."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.interfaces.cli.shared import printable

if TYPE_CHECKING:
    from rich.status import Status
    from rich.text import Text

SPINNER_AFTER_S = 1.0
_TOLD = 100  # characters of what a tool reports


class Spinner:
    """A sign of life on stderr, from a second on, and not while a person is asked something.

    It belongs to the thread that made it and to the timer that starts it.
    """

    def __init__(self, label: str = "") -> None:
        """label: what is being done; "" for a spinner that never shows."""
        self._label = label
        self._line = label
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._due = False
        self._paused = 0

    def start(self) -> None:
        """Show it, unless it is paused."""
        with self._lock:
            self._due = True
            self._show()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep the terminal free."""
        with self._lock:
            self._paused += 1
            self._show()
        try:
            yield
        finally:
            with self._lock:
                self._paused -= 1
                self._show()

    def tell(self, message: str, fraction: float | None = None) -> None:
        """Say how far it is, where a person is looking; a `Progress` of a call."""
        share = "" if fraction is None else f" {fraction:.0%}"
        line = printable(" ".join(message.split())[:_TOLD])
        with self._lock:
            self._line = f"{self._label}: {line}{share}" if line else f"{self._label}{share}"
            if self._status is not None:
                self._status.update(self._text())

    def stop(self) -> None:
        with self._lock:
            self._due = False
            self._show()

    def _show(self) -> None:
        if self._label and self._due and not self._paused:
            self._status = self._status or self._made()
            self._status.start()
        elif self._status is not None:
            self._status.stop()

    def _made(self) -> "Status":
        from rich.console import Console  # noqa: PLC0415 -- most commands end before a spinner is due
        from rich.status import Status  # noqa: PLC0415 -- same

        return Status(self._text(), console=Console(stderr=True))

    def _text(self) -> "Text":
        from rich.text import Text  # noqa: PLC0415 -- same

        return Text(self._line)


@contextmanager
def working(label: str) -> Iterator[Spinner]:
    """A spinner on stderr for anything that takes over a second, when a person is looking."""
    if not sys.stderr.isatty():
        yield Spinner()
        return
    spinner = Spinner(label)
    timer = threading.Timer(SPINNER_AFTER_S, spinner.start)
    timer.daemon = True
    timer.start()
    try:
        yield spinner
    finally:
        timer.cancel()
        timer.join()
        spinner.stop()

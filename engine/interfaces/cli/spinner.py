"""`working`: a spinner on stderr for work that takes more than a second."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from engine.interfaces.cli.shared import printable

if TYPE_CHECKING:
    from rich.text import Text

S = TypeVar("S", bound="Spinner")

SPINNER_AFTER_S = 1.0
_MESSAGE_CHARACTERS = 100  # limit for the progress message of a tool


class Shown(Protocol):
    """A display on the terminal that shows that work is in progress, such as `rich.status.Status`."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def update(self, status: "Text", /) -> None: ...


class Spinner:
    """A spinner on stderr that can be paused while a person is asked something.

    Only the thread that created it and the timer that starts it may use it.
    """

    def __init__(self, label: str = "") -> None:
        """Create a hidden spinner.

        Args:
            label: The name of the work. A spinner without a label is never shown.
        """
        self._label = label
        self._line = label
        self._status: Shown | None = None
        self._lock = threading.Lock()
        self._due = False
        self._paused = 0

    def start(self) -> None:
        """Show the spinner, unless it is paused."""
        with self._lock:
            self._due = True
            self._show()

    def begin(self, what: str) -> None:
        """Show the spinner with this line, unless it is paused."""
        with self._lock:
            self._line = printable(" ".join(what.split())[:_MESSAGE_CHARACTERS])
            if self._status is not None:
                self._status.update(self._text())
        self.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the spinner while the context is active."""
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
        """Show the progress of a call. This method can be used as the progress callback of the call."""
        share = "" if fraction is None else f" {fraction:.0%}"
        line = printable(" ".join(message.split())[:_MESSAGE_CHARACTERS])
        with self._lock:
            self._line = f"{self._label}: {line}{share}" if line else f"{self._label}{share}"
            if self._status is not None:
                self._status.update(self._text())

    def stop(self) -> None:
        """Hide the spinner."""
        with self._lock:
            self._due = False
            self._show()

    def _show(self) -> None:
        if self._label and self._due and not self._paused:
            self._status = self._status or self._new_status()
            self._status.start()
        elif self._status is not None:
            self._status.stop()

    def _new_status(self) -> "Shown":
        from rich.console import Console  # noqa: PLC0415 -- most commands end before a spinner must be shown
        from rich.status import Status  # noqa: PLC0415 -- for the same reason

        return Status(self._text(), console=Console(stderr=True))

    def _text(self) -> "Text":
        from rich.text import Text  # noqa: PLC0415 -- for the same reason

        return Text(self._line)


@contextmanager
def working(label: str) -> Iterator[Spinner]:
    """Show a spinner on stderr, if that is a terminal, from one second after the start until the context ends."""
    with shown_later(Spinner(label)) as spinner:
        yield spinner


@contextmanager
def shown_later(spinner: S) -> Iterator[S]:
    """Show this spinner or progress bar on a terminal, from one second after the start until the context ends."""
    if not sys.stderr.isatty():
        yield spinner
        return
    timer = threading.Timer(SPINNER_AFTER_S, spinner.start)
    timer.daemon = True
    timer.start()
    try:
        yield spinner
    finally:
        timer.cancel()
        timer.join()
        spinner.stop()

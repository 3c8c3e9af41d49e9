"""Forwards the reports of a running call to its listener, from a worker thread or from code in a box."""

import asyncio
import codecs
import re
from collections import deque
from collections.abc import Callable
from functools import partial

from engine.contract.context import CallContext, OutputListener
from engine.contract.events import StreamName

# The most reports that are queued for the event loop. If a tool reports faster than they are processed, the oldest are
# dropped, so that they cannot exhaust memory.
MOST_WAITING = 1024

_LONGEST = 1000  # the longest piece, in characters, for listeners that accept only progress
_MOST = 500  # the maximum number of pieces of one call for such listeners
# Escape sequences and control characters, which a terminal that shows the text would interpret.
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")


class FromThread:
    """Passes reports from a worker thread, in order, to a listener in the event loop in which it was created.

    Reporting never blocks the thread.
    """

    def __init__(self, listener: Callable[..., None]) -> None:
        self._listener = listener
        self._output = listener.output if isinstance(listener, OutputListener) else None
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque(maxlen=MOST_WAITING)
        self._scheduled = False

    def __call__(self, message: str, fraction: float | None = None) -> None:
        self._schedule(partial(self._listener, message, fraction))

    def output(self, stream: StreamName, text: str) -> None:
        """Forward output. A listener that accepts only progress receives the text as progress."""
        report = partial(self._listener, text) if self._output is None else partial(self._output, stream, text)
        self._schedule(report)

    def _schedule(self, report: Callable[[], None]) -> None:
        self._waiting.append(report)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._scheduled = False  # set before the queue is emptied, so that later reports schedule another run
        for _ in range(len(self._waiting)):
            self._loop.call_soon(self._waiting.popleft())  # one callback each, since a listener may raise


class Pieces:
    """Passes pieces of a stream to the listener. A piece is text, or UTF-8 bytes that may be cut at any byte.

    A listener that accepts output receives everything. One that accepts only progress receives the end of each piece.
    """

    def __init__(self, ctx: CallContext) -> None:
        self._progress = ctx.progress
        self._output = ctx.progress.output if isinstance(ctx.progress, OutputListener) else None
        self._reported = 0
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}

    def __call__(self, stream: str, piece: str | bytes) -> None:
        name: StreamName = "stderr" if stream == "stderr" else "stdout"  # a kernel may send any stream name
        text = _CONTROLS.sub("", self._decoders[name].decode(piece) if isinstance(piece, bytes) else piece)
        if self._output is not None:
            if text:
                self._output(name, text)
            return
        end = text[-_LONGEST:].strip()
        if end and self._reported < _MOST:
            self._reported += 1
            self._progress(end)

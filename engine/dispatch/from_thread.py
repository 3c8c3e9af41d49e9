"""`FromThread`: forwards progress from a worker thread to a listener in the event loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from engine.contract.context import HearsOutput
from engine.contract.events import StreamName

# Reports queued for the loop. A tool that reports in a tight loop loses the oldest and cannot exhaust memory.
MOST_WAITING = 1024


class FromThread:
    """Called in a thread; calls the listener in the loop it was created in, in order. Never blocks."""

    def __init__(self, listener: Callable[..., None]) -> None:
        self._listener = listener
        self._output = listener.output if isinstance(listener, HearsOutput) else None
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque(maxlen=MOST_WAITING)
        self._asked = False

    def __call__(self, message: str, fraction: float | None = None) -> None:
        self._tell(partial(self._listener, message, fraction))

    def output(self, stream: StreamName, text: str) -> None:
        """Forward output. A listener that only accepts progress gets it as progress."""
        told = partial(self._listener, text) if self._output is None else partial(self._output, stream, text)
        self._tell(told)

    def _tell(self, told: Callable[[], None]) -> None:
        self._waiting.append(told)
        if not self._asked:
            self._asked = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._asked = False  # first, so that later reports schedule another run
        for _ in range(len(self._waiting)):
            self._loop.call_soon(self._waiting.popleft())  # one callback each, since a listener may raise

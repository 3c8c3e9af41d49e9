"""`stream`: yields the events of a call while it runs and, last, its result (CALL-11)."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from engine.contract.events import Awaiting, CallEvent, Missed, OutputPiece, Progress, StreamEvent, StreamName
from engine.contract.result import ToolResult

# Limits of the buffer: the events that wait for a slow reader, and the characters of their texts.
MOST_EVENTS = 256
MOST_CHARACTERS = 1 << 20


class EventBuffer:
    """Buffers the events of one call.

    Any thread may add events. The reader must use the event loop in which the buffer was created. Adding never blocks:
    when the buffer is full, the oldest events are dropped.
    """

    def __init__(self, most_events: int = MOST_EVENTS, most_characters: int = MOST_CHARACTERS) -> None:
        self._most_events = most_events
        self._most_characters = most_characters
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._waiting: deque[Progress | OutputPiece | Awaiting] = deque()
        self._characters = 0
        self._missed = 0
        self._changed = asyncio.Event()

    def __call__(self, message: str = "", fraction: float | None = None) -> None:
        self.put(Progress(message, fraction))

    def output(self, stream: StreamName, text: str) -> None:
        self.put(OutputPiece(stream, text))

    def put(self, event: Progress | OutputPiece | Awaiting) -> None:
        with self._lock:
            self._waiting.append(event)
            self._characters += _size(event)
            while len(self._waiting) > self._most_events or self._characters > self._most_characters:
                self._characters -= _size(self._waiting.popleft())
                self._missed += 1
        self.stir()

    def take(self) -> StreamEvent | None:
        """Return the oldest event, or a `Missed` if events were dropped before it; None if the buffer is empty."""
        with self._lock:
            if self._missed:
                missed, self._missed = self._missed, 0
                return Missed(missed)
            if not self._waiting:
                return None
            event = self._waiting.popleft()
            self._characters -= _size(event)
            return event

    def take_all(self) -> list[StreamEvent]:
        """Return all buffered events, in order."""
        with self._lock:
            taken: list[StreamEvent] = [Missed(self._missed)] if self._missed else []
            taken += self._waiting
            self._waiting.clear()
            self._characters = self._missed = 0
        return taken

    def stir(self) -> None:
        """Wake the reader, because there is an event or the call has ended."""
        if threading.get_ident() == self._thread:
            self._changed.set()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._changed.set)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until there may be an event to take. Return False on timeout."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True


async def stream(call: Callable[[EventBuffer], Coroutine[Any, Any, ToolResult]]) -> AsyncGenerator[CallEvent]:
    """Yield the events of a call in order, and its result last.

    Closing the iterator, or cancelling the task that waits for it, cancels the call and waits until its tool stops.

    Args:
        call: A function that starts the call. Its argument is the buffer for the events, which is the call's listener.
    """
    events = EventBuffer()
    running = asyncio.ensure_future(call(events))
    running.add_done_callback(lambda _: events.stir())
    try:
        while not running.done():
            await events.wait()
            while (event := events.take()) is not None:
                yield event
        while (event := events.take()) is not None:
            yield event
        yield running.result()
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait([running])


def _size(event: Progress | OutputPiece | Awaiting) -> int:
    match event:
        case Progress():
            return len(event.message)
        case OutputPiece():
            return len(event.text)
        case Awaiting():
            return 0

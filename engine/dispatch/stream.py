"""`stream`: one call as the events of its run and, last, its result (CALL-11)."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from engine.contract.events import Awaiting, CallEvent, Missed, OutputPiece, Progress, StreamEvent, StreamName
from engine.contract.result import ToolResult

# Events that wait for a follower who is slower than the tool, and characters of text in them.
MOST_EVENTS = 256
MOST_CHARACTERS = 1 << 20


class EventBuffer:
    """A listener for one call, told from any thread; its reader is in the event loop it was made in.

    Never blocks: what does not fit pushes the oldest out.
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
        """The oldest event, or how many were dropped before it; None when nothing waits."""
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
        """All that waits, in order."""
        with self._lock:
            taken: list[StreamEvent] = [Missed(self._missed)] if self._missed else []
            taken += self._waiting
            self._waiting.clear()
            self._characters = self._missed = 0
        return taken

    def stir(self) -> None:
        """Wake the reader: there is something, or there will be nothing more."""
        if threading.get_ident() == self._thread:
            self._changed.set()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
                self._loop.call_soon_threadsafe(self._changed.set)

    async def wait(self, seconds: float | None = None) -> bool:
        """Until there may be something to take; False when that took so long that the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True


async def stream(call: Callable[[EventBuffer], Coroutine[Any, Any, ToolResult]]) -> AsyncGenerator[CallEvent]:
    """The events of `call`, which is given their listener, in order; its result comes last.

    Closing the iterator, or cancelling who waits for it, cancels the call and waits until its tool has stopped.
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

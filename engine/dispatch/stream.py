"""`stream`: one call as the events of its run and, last, its result (CALL-11)."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from engine.contract.events import CallEvent, Missed, Output, Progress, StreamName
from engine.contract.result import ToolResult

# Events that wait for a follower who is slower than the tool, and characters of text in them.
MOST_EVENTS = 256
MOST_CHARACTERS = 1 << 20


class EventBuffer:
    """A listener for one call, in the event loop. Never blocks: what does not fit pushes the oldest out."""

    def __init__(self, most_events: int = MOST_EVENTS, most_characters: int = MOST_CHARACTERS) -> None:
        self._most_events = most_events
        self._most_characters = most_characters
        self._waiting: deque[Progress | Output] = deque()
        self._characters = 0
        self._missed = 0
        self.changed = asyncio.Event()

    def __call__(self, message: str, fraction: float | None = None) -> None:
        self._put(Progress(message, fraction))

    def output(self, stream: StreamName, text: str) -> None:
        self._put(Output(stream, text))

    def take(self) -> CallEvent | None:
        """The oldest event, or how many were dropped before it; None when nothing waits."""
        if self._missed:
            missed, self._missed = self._missed, 0
            return Missed(missed)
        if not self._waiting:
            return None
        event = self._waiting.popleft()
        self._characters -= _size(event)
        return event

    def _put(self, event: Progress | Output) -> None:
        self._waiting.append(event)
        self._characters += _size(event)
        while len(self._waiting) > self._most_events or self._characters > self._most_characters:
            self._characters -= _size(self._waiting.popleft())
            self._missed += 1
        self.changed.set()


async def stream(call: Callable[[EventBuffer], Coroutine[Any, Any, ToolResult]]) -> AsyncGenerator[CallEvent]:
    """The events of `call`, which is given their listener, in order; its result comes last.

    Closing the iterator, or cancelling who waits for it, cancels the call and waits until its tool has stopped.
    """
    events = EventBuffer()
    running = asyncio.ensure_future(call(events))
    running.add_done_callback(lambda _: events.changed.set())
    try:
        while not running.done():
            await events.changed.wait()
            events.changed.clear()
            while (event := events.take()) is not None:
                yield event
        while (event := events.take()) is not None:
            yield event
        yield running.result()
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait([running])


def _size(event: Progress | Output) -> int:
    return len(event.message if isinstance(event, Progress) else event.text)

"""`stream_run`: yields the events of a run while it is worked on, and its report last."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from engine.agent.events import Event, OnEvent, Report


class EventListeners:
    """Passes each event to all listeners, in order."""

    def __init__(self, *listeners: OnEvent) -> None:
        self._listeners = list(listeners)

    def __call__(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    def add(self, listener: OnEvent) -> None:
        self._listeners.append(listener)

    def remove(self, listener: OnEvent) -> None:
        self._listeners.remove(listener)


async def stream_run(
    work: Callable[[], Coroutine[Any, Any, Report]], listeners: EventListeners
) -> AsyncGenerator[Event | Report]:
    """Yield the events of a run in order, and its report last.

    Closing the iterator, or cancelling the task that waits for it, cancels the work and waits until it stops. Events
    wait for a slow reader, and the run does not.

    Args:
        work: Begins the work on the run.
        listeners: The listeners of its events.
    """
    waiting: asyncio.Queue[Event | None] = asyncio.Queue()
    listeners.add(waiting.put_nowait)
    running = asyncio.ensure_future(work())
    running.add_done_callback(lambda _: waiting.put_nowait(None))
    try:
        while (event := await waiting.get()) is not None:
            yield event
        yield running.result()
    finally:
        listeners.remove(waiting.put_nowait)
        if not running.done():
            running.cancel()
            await asyncio.wait([running])

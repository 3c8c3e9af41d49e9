"""`SessionEvents`: the messages that a client can receive again after its connection broke (resumption).

The SDK numbers the streams of each session from zero, so every session needs a store of its own. In a shared store, a
client could resume the streams of others.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage

MAX_EVENTS = 256  # of one session
MAX_BYTES = 4 << 20  # of one session


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A message of a stream. It is None for an event that only marks the start of the stream."""

    stream: StreamId
    message: JSONRPCMessage | None
    size: int


class SessionEvents(EventStore):
    """Keeps the latest messages of one session in memory. The oldest ones are dropped at a limit.

    A message larger than the limit of bytes is not kept, so it cannot be received again.
    """

    def __init__(self, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._prefix = secrets.token_urlsafe(8)  # makes ids unique across sessions, as the protocol requires
        self._events: OrderedDict[EventId, StoredEvent] = OrderedDict()
        self._bytes = 0
        self._next = 0

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Keep a message and return its id."""
        self._next += 1
        event_id = f"{self._prefix}-{self._next}"
        size = 0 if message is None else len(message.model_dump_json(by_alias=True, exclude_unset=True))
        self._events[event_id] = StoredEvent(stream_id, message, size)
        self._bytes += size
        while len(self._events) > self._max_events or self._bytes > self._max_bytes:
            self._bytes -= self._events.popitem(last=False)[1].size
        return event_id

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send the messages that followed an event in its stream.

        Returns:
            The stream, or None if the event is unknown or no longer kept.
        """
        last = self._events.get(last_event_id)
        if last is None:
            return None
        ids = list(self._events)
        for event_id in ids[ids.index(last_event_id) + 1 :]:
            event = self._events.get(event_id)  # may have been dropped while an earlier message was sent
            if event is not None and event.stream == last.stream and event.message is not None:
                await send_callback(EventMessage(event.message, event_id))
        return last.stream


class SessionManager(StreamableHTTPSessionManager):
    """The SDK's session manager, with a separate event store for each session."""

    @property
    def event_store(self) -> EventStore | None:
        """A new store, because the SDK reads this attribute once for each session that it creates."""
        return SessionEvents()

    @event_store.setter
    def event_store(self, value: EventStore | None) -> None:
        """Ignore the store that the SDK's constructor assigns."""

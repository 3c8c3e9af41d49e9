"""The event store of a session is bounded, and replays exactly what followed an event in its stream."""

import asyncio

import hypothesis.strategies as some
import pytest
from hypothesis import given
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCNotification

from engine.interfaces.mcp.session_events import SessionEvents

pytestmark = [pytest.mark.spec("FACE-2")]


def note(number: int) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method=f"n/{number}")


async def replayed(events: SessionEvents, after: str) -> tuple[str | None, list[str | None]]:
    found: list[str | None] = []

    async def collect(event: EventMessage) -> None:
        found.append(event.event_id)

    return await events.replay_events_after(after, collect), found


@given(streams=some.lists(some.sampled_from("abc"), max_size=30), limit=some.integers(1, 12))
def test_what_followed_an_event_in_its_stream_is_sent_again_as_far_as_it_is_kept(
    streams: list[str], limit: int
) -> None:
    async def check() -> None:
        events = SessionEvents(max_events=limit)
        ids = [await events.store_event(stream, note(number)) for number, stream in enumerate(streams)]
        assert len(set(ids)) == len(ids)
        kept = range(max(0, len(ids) - limit), len(ids))
        for number, event_id in enumerate(ids):
            stream, found = await replayed(events, event_id)
            if number in kept:
                assert stream == streams[number]
                assert found == [ids[later] for later in kept if later > number and streams[later] == stream]
            else:
                assert (stream, found) == (None, [])

    asyncio.run(check())


async def test_a_large_message_drops_older_ones_and_is_not_kept_beyond_the_limit_of_bytes() -> None:
    events = SessionEvents(max_bytes=1_000)
    first = await events.store_event("a", None)
    await events.store_event("a", JSONRPCNotification(jsonrpc="2.0", method="n", params={"text": "x" * 2_000}))
    assert await replayed(events, first) == (None, [])
    last = await events.store_event("a", note(1))
    assert await replayed(events, last) == ("a", [])

"""A streamed call yields its events in order and its result last, and never waits for a slow reader."""

import asyncio
import threading
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine import Engine
from engine.contract.context import CallContext
from engine.contract.events import CallEvent, Missed, OutputPiece, Progress
from engine.contract.result import ToolResult
from engine.dispatch.forwarding import Pieces
from engine.dispatch.stream import EventBuffer
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

pytestmark = pytest.mark.spec("CALL-11")

DEADLINE_S = 20


@tool()
async def counts(ctx: CallContext, to: int, pause: bool = True) -> int:
    """Count.

    Args:
        to: how far.
        pause: let others run in between.
    """
    for number in range(to):
        ctx.progress(f"at {number}", number / to)
        if pause:
            await asyncio.sleep(0)
    return to


@tool()
def counts_in_a_thread(ctx: CallContext, to: int) -> int:
    """Count in a worker thread.

    Args:
        to: how far.
    """
    for number in range(to):
        ctx.progress(f"at {number}")
    return to


@tool()
async def counts_in_its_own_thread(ctx: CallContext, to: int) -> int:
    """Count in a thread that the engine does not know.

    Args:
        to: how far.
    """

    def count() -> None:
        for number in range(to):
            ctx.progress(f"at {number}")

    thread = threading.Thread(target=count)
    thread.start()
    await asyncio.to_thread(thread.join)
    return to


class Waits:
    """A tool that waits until it is cancelled, and records the cancellation."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

        @tool()
        async def waits(ctx: CallContext) -> str:
            """Wait for ever."""
            ctx.progress("waiting")
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            return ""

        self.tool = waits


@tool()
async def fails(ctx: CallContext) -> str:
    """Fail half-way."""
    ctx.progress("half", 0.5)
    raise ValueError("the other half is missing")


def opened(tmp_path: Path, *more: object):
    sources = [StaticSource("mine", [counts, counts_in_a_thread, counts_in_its_own_thread, fails, *more])]
    return Engine.open(tmp_path, sources=sources, packs=False, environ={})


async def followed(engine: Engine, name: str, **arguments: object) -> list[CallEvent]:
    async with asyncio.timeout(DEADLINE_S):
        return [event async for event in engine.stream(name, arguments)]


async def test_progress_is_streamed_in_order_and_the_result_last(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        *events, result = await followed(engine, "counts", to=4)
        assert events == [Progress(f"at {number}", number / 4) for number in range(4)]
        assert isinstance(result, ToolResult)
        assert result.output == 4
        for name in ("counts_in_a_thread", "counts_in_its_own_thread"):
            *events, result = await followed(engine, name, to=4)
            assert events == [Progress(f"at {number}") for number in range(4)]
            assert isinstance(result, ToolResult)
            assert result.success


async def test_failures_refusals_and_unknown_names_are_streamed_as_results(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        first, result = await followed(engine, "fails")
        assert first == Progress("half", 0.5)
        assert isinstance(result, ToolResult)
        assert "other half" in result.error
        for name, arguments in (("counts", {"to": "far"}), ("nobody", {})):
            (only,) = await followed(engine, name, **arguments)
            assert isinstance(only, ToolResult)
            assert not only.success


@pytest.mark.parametrize("name", ["counts", "counts_in_a_thread"])
async def test_a_slow_reader_does_not_delay_the_tool_and_gets_the_result(tmp_path: Path, name: str) -> None:
    arguments = {"to": 5000} | ({"pause": False} if name == "counts" else {})
    async with opened(tmp_path) as engine, asyncio.timeout(DEADLINE_S):
        missed, last = 0, -1
        async for event in engine.stream(name, arguments):
            match event:
                case Missed(events):
                    missed += events
                case Progress(message):
                    number = int(message.removeprefix("at "))
                    assert number > last
                    last = number
                case ToolResult():
                    assert event.output == 5000
        assert last == 4999
        assert missed > 0 or name != "counts"  # from a thread it may come slowly enough


async def test_closing_the_stream_cancels_the_call_and_waits_for_the_tool_to_stop(tmp_path: Path) -> None:
    waits = Waits()
    async with opened(tmp_path, waits.tool) as engine, asyncio.timeout(DEADLINE_S):
        async with aclosing(engine.stream("waits", {}, call_id="it")) as events:
            async for event in events:
                assert event == Progress("waiting")
                break
        assert waits.stopped.is_set()


async def test_a_reader_can_be_cancelled_and_a_killed_call_still_has_a_result(tmp_path: Path) -> None:
    waits = Waits()
    async with opened(tmp_path, waits.tool) as engine, asyncio.timeout(DEADLINE_S):
        begun = asyncio.Event()

        async def follow() -> list[CallEvent]:
            seen: list[CallEvent] = []
            async for event in engine.stream("waits", {}, call_id="it"):
                seen.append(event)
                begun.set()
            return seen

        cancelled = asyncio.ensure_future(follow())
        await begun.wait()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert waits.stopped.is_set()
        begun.clear()
        killed = asyncio.ensure_future(follow())
        await begun.wait()
        engine._components.pipeline.cancel("it")
        first, result = await killed
        assert first == Progress("waiting")
        assert isinstance(result, ToolResult)
        assert result.audit.end == "killed"


@given(some.lists(some.integers(0, 30)), some.integers(1, 5), some.integers(1, 60))
def test_a_buffer_keeps_the_newest_events_and_counts_dropped_ones(
    sizes: list[int], most_events: int, most_characters: int
) -> None:
    async def fill() -> None:
        buffer = EventBuffer(most_events, most_characters)
        put = []
        for index, size in enumerate(sizes):
            text = chr(97 + index % 26) * size
            buffer.output("stdout", text)
            put.append(OutputPiece("stdout", text))
        taken = []
        while (event := buffer.take()) is not None:
            taken.append(event)
        missed = sum(event.events for event in taken if isinstance(event, Missed))
        kept = [event for event in taken if not isinstance(event, Missed)]
        assert missed + len(kept) == len(put)
        assert kept == put[missed:]
        assert len(kept) <= most_events
        assert sum(len(event.text) for event in kept) <= most_characters

    asyncio.run(fill())


class Follower:
    """A listener that receives output separately from progress."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def __call__(self, message: str, fraction: float | None = None) -> None:
        raise AssertionError(message)

    def output(self, stream: str, text: str) -> None:
        self.heard.append((stream, text))


def context(progress: object) -> CallContext:
    unused: dict[str, object] = dict.fromkeys(("turn", "call_id", "sandbox", "workspace", "clock"))
    return CallContext(**unused, progress=progress)  # type: ignore[arg-type]


@given(some.text(some.characters(exclude_categories=["Cc", "Cs"])), some.lists(some.integers(0, 40)))
def test_text_is_decoded_correctly_wherever_its_bytes_are_split(text: str, cuts: list[int]) -> None:
    follower = Follower()
    pieces, data = Pieces(context(follower)), text.encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in pairwise(places):
        pieces("stdout", data[start:end])
    assert "".join(said for _, said in follower.heard) == text


def test_control_sequences_are_removed_and_progress_listeners_get_the_end_of_each_piece() -> None:
    follower, told = Follower(), []
    Pieces(context(follower))("stderr", b"a\x1b[2Jb\x07\n")
    assert follower.heard == [("stderr", "ab\n")]
    pieces = Pieces(context(told.append))
    pieces("stdout", b"x" * 5000 + b"\n")
    assert told == ["x" * 999]
    for _ in range(600):
        pieces("stdout", b"line\n")
    assert len(told) == 500


@pytest.mark.slow
async def test_output_of_code_in_a_box_is_streamed_while_it_runs(tmp_path: Path) -> None:
    code = "import sys, pathlib, time\nprint('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nprint('ended', file=sys.stderr)"
    async with Engine.open(tmp_path, environ={}) as engine, asyncio.timeout(60):
        said: dict[str, str] = {"stdout": "", "stderr": ""}
        async for event in engine.stream("execute", {"language": "python", "code": code}):
            match event:
                case OutputPiece(stream, text):
                    said[stream] += text
                    (tmp_path / "workspace" / "go").touch()  # it ends only because its first line was heard
                case ToolResult():
                    assert event.success, event.error
        assert said == {"stdout": "begun\n", "stderr": "ended\n"}

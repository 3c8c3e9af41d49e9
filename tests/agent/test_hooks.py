"""Hooks before and after turns and calls: they can refuse a call, never allow one, and their failures stop no run."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from engine.agent import hooks
from engine.agent.budget import Finish
from engine.agent.events import CallFinished, Event, HookFailed, Report, TextPiece
from engine.agent.hooks import HookedTurn, LoopHooks
from engine.contract.failure import Failure, FailureClass
from engine.contract.result import Audit, ToolCall, ToolResult
from tests.agent.scripted_model import calls, says, serving
from tests.agent.test_loop import Bench, double, talking, tool

pytestmark = pytest.mark.spec("LOOP-9")

DOUBLE = calls(("double", {"x": 21}), text="I double it.")


class Noting(LoopHooks):
    """Notes what it is called with."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    async def before_turn(self, turn: HookedTurn) -> None:
        self.noted.append(f"before turn {turn.number}")

    async def after_turn(self, turn: HookedTurn, text: str, calls: Sequence[CallFinished]) -> None:
        self.noted.append(f"after turn {turn.number}: {text} {[one.result.text for one in calls]}")

    async def before_call(self, turn: HookedTurn, call: ToolCall) -> str | None:
        self.noted.append(f"before {call.name} {dict(call.arguments)} in turn {turn.number}")
        return None

    async def after_call(self, turn: HookedTurn, call: ToolCall, result: ToolResult) -> None:
        self.noted.append(f"after {call.name}: {result.text}")


class Refusing(LoopHooks):
    async def before_call(self, turn: HookedTurn, call: ToolCall) -> str | None:
        return "only even numbers are doubled" if call.arguments["x"] % 2 else None


class Failing(LoopHooks):
    """Fails in every method, each in another way."""

    async def before_turn(self, turn: HookedTurn) -> None:
        await asyncio.Event().wait()

    async def after_turn(self, turn: HookedTurn, text: str, calls: Sequence[CallFinished]) -> None:
        raise asyncio.CancelledError

    async def before_call(self, turn: HookedTurn, call: ToolCall) -> str | None:
        raise ValueError("broken")

    def after_call(self, turn: HookedTurn) -> None:  # type: ignore[override]
        """It has the wrong parameters."""


class FailingGuard(Failing):
    guards = True


async def run(*script: Any, using: Sequence[LoopHooks], host: Bench | None = None) -> tuple[Report, Bench, list[Event]]:
    events: list[Event] = []
    bench = host or Bench(**tool("double", double))
    async with serving(*script) as model, talking(model, bench, hooks=using, on_event=events.append) as conversation:
        report = await conversation.run("Double 21.")
    return report, bench, events


async def test_hooks_are_called_before_and_after_each_turn_and_call() -> None:
    noting = Noting()
    await run(DOUBLE, says("It is 42."), using=[noting])
    assert noting.noted == [
        "before turn 1",
        "before double {'x': 21} in turn 1",
        "after double: 42",
        "after turn 1: I double it. ['42']",
        "before turn 2",
        "after turn 2: It is 42. []",
    ]


async def test_a_hook_refuses_a_call_with_a_reason_that_the_model_is_told() -> None:
    noting = Noting()
    both = calls(("double", {"x": 21}), ("double", {"x": 2}))
    report, bench, _ = await run(both, says("No."), using=[Refusing(), noting])
    assert bench.called == ["double"]
    refused, made = (one.result for one in report.calls)
    assert refused.text == "double was not called: only even numbers are doubled"
    assert refused.failure is not None
    assert (refused.failure.reason, refused.failure.may_have_started, made.text) == ("hook", False, "4")
    assert not any(each.startswith("before double {'x': 21}") for each in noting.noted)  # the first refusal is enough
    assert any(each.startswith("after double: double was not called") for each in noting.noted)


async def test_a_model_that_repeats_a_call_that_a_hook_refuses_is_stopped() -> None:
    report, bench, _ = await run(DOUBLE, using=[Refusing()])
    assert (report.finish, bench.called, len(report.calls)) == (Finish.REPEATED, [], 3)


async def test_a_hook_cannot_allow_what_the_engine_refuses() -> None:
    async def forbidden(x: int) -> ToolResult:
        failure = Failure(FailureClass.DIAGNOSTIC, "denied", may_have_started=False)
        return ToolResult(success=False, error="Not permitted.", failure=failure, audit=Audit(end="refused"))

    report, _, _ = await run(DOUBLE, says("No."), using=[Noting()], host=Bench(**tool("double", forbidden)))
    assert [one.result.success for one in report.calls] == [False]


async def test_hooks_that_fail_are_reported_and_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "DEADLINE_S", 0.05)
    report, bench, events = await run(DOUBLE, says("It is 42."), using=[Failing(), Noting()])
    assert (report.finish, report.answer, bench.called) == (Finish.ANSWER, "It is 42.", ["double"])
    failed = [each for each in events if isinstance(each, HookFailed)]
    assert [each.hook for each in failed] == [
        f"Failing.{method}"
        for method in ("before_turn", "before_call", "after_call", "after_turn", "before_turn", "after_turn")
    ]
    assert "took longer than" in failed[0].error
    assert "broken" in failed[1].error


async def test_a_guard_that_fails_refuses_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "DEADLINE_S", 0.05)
    report, bench, _ = await run(DOUBLE, says("No."), using=[FailingGuard()])
    assert bench.called == []
    assert "FailingGuard could not check the call" in report.calls[0].result.text
    assert report.finish is Finish.ANSWER


async def test_a_run_is_cancelled_while_a_hook_works() -> None:
    class Waiting(LoopHooks):
        def __init__(self) -> None:
            self.reached = asyncio.Event()

        async def before_call(self, turn: HookedTurn, call: ToolCall) -> str | None:
            self.reached.set()
            await asyncio.Event().wait()
            return None

    waiting = Waiting()
    task = asyncio.create_task(run(DOUBLE, using=[waiting]))
    async with asyncio.timeout(30):
        await waiting.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.spec("LOOP-1")
async def test_the_events_and_the_report_of_a_run_are_streamed() -> None:
    async with (
        serving(DOUBLE, says("It is forty-two.")) as model,
        talking(model, Bench(**tool("double", double))) as conversation,
    ):
        found = [each async for each in conversation.stream("Double 21.")]
    *events, report = found
    assert isinstance(report, Report)
    assert report.answer == "It is forty-two."
    kinds = [type(each).__name__ for each in events]
    assert kinds.index("TurnStarted") < kinds.index("CallStarted") < kinds.index("CallFinished")
    last = max(at for at, kind in enumerate(kinds) if kind == "TurnStarted")
    pieces = [each.text for each in events[last:] if isinstance(each, TextPiece)]
    assert len(pieces) > 1
    assert "".join(pieces) == report.answer


@pytest.mark.spec("LOOP-1")
async def test_a_reader_that_stops_reading_cancels_the_run() -> None:
    async with (
        serving(says("One two three four five six seven.")) as model,
        talking(model, Bench(**tool("double", double))) as conversation,
    ):
        events = conversation.stream("Count.")
        assert type(await anext(events)).__name__ == "TurnStarted"
        await events.aclose()
        assert conversation.history
        assert conversation._run is not None
        assert conversation._run.state.ended is not None
        assert conversation._run.state.ended.finish is Finish.CANCELLED
        report = (await conversation.run("Count.")).finish
    assert report is Finish.ANSWER

"""A call returns exactly one result, whatever the tool does."""

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import ClassVar

import pytest

from engine.contract.context import CallContext, Produced
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.result import ToolCall
from engine.contract.turn import Turn
from engine.dispatch.audit import AuditTrail
from engine.dispatch.bind import bind_tools
from engine.policy.access import Access
from engine.registry.decorate import tool
from engine.stores.call_journal import CallJournal
from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog
from engine.stores.records import Records
from tests.dispatch.pipeline_fixture import TURN, ManualClock, open_pipeline

DIAGNOSTIC, FATAL, UNKNOWN = FailureClass.DIAGNOSTIC, FailureClass.FATAL, FailureClass.UNKNOWN


class Colour(StrEnum):
    RED = "red"


@tool()
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool()
async def whoami(ctx: CallContext) -> Produced:
    """Say who is asking."""
    return Produced({"user": ctx.turn.user, "id": ctx.call_id}, None, ("looked:around",))


@pytest.mark.spec("CALL-1")
async def test_a_call_returns_a_result_with_output_message_and_side_effects(tmp_path):
    async with open_pipeline(tmp_path, [add, whoami]) as h:
        result = await h.call("add", a=2)
        assert (result.success, result.output, result.message, result.error) == (True, 3, "3", "")
        quiet = await h.pipeline.call(ToolCall("whoami", {}, "call-7"), Turn(user="ada"))
        assert quiet.output == {"user": "ada", "id": "call-7"}
        assert quiet.message is None
        assert quiet.side_effects == ("looked:around",)


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (ValueError("bad"), DIAGNOSTIC),
        (KeyError("x"), UNKNOWN),
        (PermissionError("no"), FATAL),
        (ToolFailure("mine", failure_class=FATAL), FATAL),
        (SystemExit(3), UNKNOWN),
        (asyncio.CancelledError(), UNKNOWN),
        (ExceptionGroup("two", [ValueError("a"), OSError("b")]), DIAGNOSTIC),
        (StopIteration(1), UNKNOWN),
        (StopAsyncIteration(), UNKNOWN),
        (RecursionError("deep"), UNKNOWN),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else str(each),
)
@pytest.mark.parametrize("blocking", [False, True], ids=["async", "sync"])
@pytest.mark.spec("CALL-1")
async def test_every_exception_of_a_tool_becomes_a_result(tmp_path, error, failure_class, blocking):
    async def fail() -> None:
        """Fail."""
        raise error

    def fail_blocking() -> None:
        """Fail."""
        raise error

    made = tool(name="fail")(fail_blocking if blocking else fail)
    async with open_pipeline(tmp_path, [made]) as h:
        result = await h.call("fail")
        assert not result.success
        assert result.failure.failure_class is failure_class
        assert result.error
        assert [each.audit.call_id for _, each in h.seen] == [result.audit.call_id]


@pytest.mark.spec("CALL-1")
async def test_an_internal_error_of_the_engine_becomes_a_result(tmp_path, caplog):
    def broken_binder(*_):
        raise ZeroDivisionError("bind")

    async with open_pipeline(tmp_path, [add]) as h:
        h.pipeline._bind = broken_binder
        result = await h.call("add", a=1)
        assert not result.success

        def broken_recovery(*_):
            raise ZeroDivisionError("facts")

        h.pipeline._facts = broken_recovery
        result = await h.call("add", a=1)
        assert result.failure.reason == "engine_fault"
        assert "engine itself failed" in caplog.text


@pytest.mark.spec("CALL-1")
async def test_a_failing_observer_does_not_affect_the_result(tmp_path, caplog):
    def broken(call, result):
        raise ZeroDivisionError("observer")

    async with open_pipeline(tmp_path, [add]) as h:
        h.pipeline._observers = (broken, *h.pipeline._observers)
        assert (await h.call("add", a=1)).success
        assert len(h.seen) == 1
        assert "An observer failed" in caplog.text


@pytest.mark.spec("CALL-4")
async def test_a_call_of_an_unknown_tool_suggests_the_three_most_similar_names(tmp_path):
    async def named(name):
        async def nothing() -> None:
            """Nothing."""

        return tool(name=name)(nothing)

    tools = [await named(each) for each in ("execute", "file_system", "scratchpad", "manage_skills", "create_skill")]
    async with open_pipeline(tmp_path, tools) as h:
        result = await h.call("exceute", code="1")
        assert result.failure.reason == "unknown_tool"
        assert result.failure.failure_class is DIAGNOSTIC
        assert not result.failure.may_have_started
        assert result.audit.end == "refused"
        assert "'exceute'" in result.error
        assert "Nearest: execute, " in result.error
        assert len(result.error.split("Nearest: ")[1].split(", ")) == 3


@pytest.mark.spec("ACCESS-1", "DISC-1")
async def test_a_denied_caller_learns_nothing_about_the_arguments(tmp_path):
    @tool(required_permission="admin")
    async def open_vault(combination: str) -> None:
        """Open."""

    async with open_pipeline(tmp_path, [open_vault], access_guards=(Access(),)) as h:
        denied = await h.pipeline.call(ToolCall("open_vault", {"zz": 1}), Turn(permission="guest"))
        assert denied.failure.reason == "denied"
        assert "combination" not in denied.error
        told = await h.pipeline.call(ToolCall("open_vault", {"zz": 1}), Turn())
        assert "combination" in told.error


@pytest.mark.spec("ACCESS-2", "MOD-2")
async def test_a_module_outside_the_persona_is_not_contacted(tmp_path):
    class Elsewhere:
        name = "elsewhere"
        asked: ClassVar[list[str]] = []

        async def tools(self, turn):
            return ()

        async def find(self, name):
            self.asked.append(name)

    async with open_pipeline(tmp_path, [], sources=[Elsewhere()]) as h:
        denied = await h.pipeline.call(ToolCall("mail.send", {}), Turn(modules=frozenset(("weather",))))
        assert (denied.failure.reason, Elsewhere.asked) == ("denied", [])
        assert "Nearest" not in denied.error
        await h.pipeline.call(ToolCall("weather.today", {}), Turn(modules=frozenset(("weather",))))
        assert Elsewhere.asked == ["weather.today"]


@pytest.mark.spec("CALL-12")
async def test_the_name_of_an_unknown_argument_is_truncated(tmp_path):
    @tool()
    async def look(path: str) -> None:
        """Look."""

    async with open_pipeline(tmp_path, [look]) as h:
        result = await h.call("look", **{"p" * 200_000: 1})
        assert len(result.error) < 3_000


@pytest.mark.spec("CALL-4", "ACCESS-1")
async def test_suggestions_for_a_wrong_name_contain_only_callable_tools(tmp_path):
    @tool(required_permission="admin")
    async def erase_everything() -> None:
        """Erase."""

    @tool()
    async def erase_line() -> None:
        """Erase one line."""

    async with open_pipeline(tmp_path, [erase_everything, erase_line]) as h:
        result = await h.pipeline.call(ToolCall("erase", {}), Turn(permission="guest"))
        assert "Nearest: erase_line." in result.error
        assert "erase_everything" not in result.error


@pytest.mark.spec("CALL-5")
async def test_the_engine_sets_time_tool_attempts_and_end_in_the_audit(tmp_path):
    clock = ManualClock()

    @tool(aliases=("slow",))
    async def slow_tool() -> str:
        """Take time."""
        clock.seconds += 1.5
        return "done"

    async with open_pipeline(tmp_path, [slow_tool], clock=clock) as h:
        audit = (await h.call("slow")).audit
        assert audit.tool == "slow_tool"
        assert audit.duration_ms == 1500.0
        assert datetime.fromisoformat(audit.ts) == clock.start
        assert audit.ts.endswith("+00:00")
        assert (audit.attempts, audit.end) == (1, "ok")
        assert audit.call_id


@pytest.mark.spec("CALL-5")
async def test_ids_given_by_the_caller_are_kept_unless_they_are_in_flight(tmp_path):
    gate = asyncio.Event()

    @tool()
    async def wait() -> None:
        """Wait."""
        await gate.wait()

    async with open_pipeline(tmp_path, [wait]) as h:
        first, second = (asyncio.create_task(h.pipeline.call(ToolCall("wait", {}, "1"), TURN)) for _ in range(2))
        await asyncio.sleep(0)
        gate.set()
        ids = [(await each).audit.call_id for each in (first, second)]
        assert ids[0] == "1"
        assert ids[1].startswith("1-")


@pytest.mark.spec("CALL-2")
async def test_bound_tools_are_callables_that_use_the_pipeline(tmp_path):
    async with open_pipeline(tmp_path, [add, whoami]) as h:
        bound = bind_tools([add, whoami], h.pipeline, Turn(user="bob"))
        assert sorted(bound) == ["add", "whoami"]
        assert bound["add"].__doc__ == "Add two numbers."
        assert (await bound["add"](a=1, b=2)).output == 3
        assert (await bound["whoami"]()).output["user"] == "bob"
        assert (await bound["add"](a="x")).failure.reason == "invalid_arguments"


@pytest.mark.spec("CALL-1")
async def test_values_without_a_json_form_are_still_a_success(tmp_path):
    @dataclass
    class Point:
        x: int
        when: datetime

    values = [
        Point(1, datetime(2026, 1, 1, tzinfo=UTC)),
        {"nan": float("nan"), "set": {1}},
        object(),
        b"\xff\xfe",
        float("inf"),
        "half \ud83d",
        {"half": "\ud83d"},
        Colour.RED,
        True,
        None,
        [1, 2.5, "é"],
    ]
    circle: list = []
    circle.append(circle)

    @tool()
    async def give(n: int) -> object:
        """Give a value."""
        return [*values, circle][n]

    async with open_pipeline(tmp_path, [give]) as h:
        results = [await h.call("give", n=n) for n in range(len(values) + 1)]
    assert all(each.success for each in results)
    assert all(each.message.encode() for each in results)
    assert results[0].output == {"x": 1, "when": "2026-01-01T00:00:00Z"}
    assert results[1].message == '{"nan":"NaN","set":[1]}'
    assert [each.message for each in results[7:11]] == ["red", "true", "null", '[1,2.5,"é"]']


@pytest.mark.spec("FAIL-5")
async def test_an_unexpected_error_gives_a_short_message_and_is_logged_for_the_operator(tmp_path):
    records = Records.open(f"sqlite:///{tmp_path / 'records.db'}")
    journal = CallJournal(records)
    trail = AuditTrail(journal, EventLog(records, SystemClock()))

    @tool()
    async def odd() -> None:
        """Be odd."""
        raise RuntimeError("first line\n" + "x" * 100_000)

    async with open_pipeline(tmp_path / "work", [odd], recorder=trail) as h:
        result = await h.pipeline.call(ToolCall("odd", {}, "c1"), TURN)
        (row,) = journal.failures.recent(10)  # on record before the caller gets the result
    await trail.aclose()
    assert result.failure.failure_class is UNKNOWN
    assert "RuntimeError: first line" in result.error
    assert "knackbox failures" in result.error
    assert len(result.error) < 600
    assert (row["tool"], row["call_id"], row["failure_class"]) == ("odd", "c1", "UNKNOWN")
    records.close()


@pytest.mark.spec("FAIL-5")
async def test_a_recorder_that_fails_does_not_break_the_call(tmp_path, caplog):
    class Broken:
        def observe(self, *_):
            raise OSError("no memory")

        async def record_now(self):
            raise OSError("disk on fire")

    async with open_pipeline(tmp_path, [add], recorder=Broken()) as h:
        result = await h.call("nope")
        assert result.failure.reason == "unknown_tool"
        assert "could not be recorded" in caplog.text
        assert (await h.call("add", a=1)).success


async def test_a_source_that_fails_while_looking_up_is_a_failed_call(tmp_path):
    class Down:
        name = "down"

        async def tools(self, turn):
            return ()

        async def find(self, name):
            raise ConnectionRefusedError("store is down")

    async with open_pipeline(tmp_path, [add], sources=[Down()]) as h:
        result = await h.call("something")
        assert not result.success
        assert "store is down" in result.error
        assert (await h.call("add", a=1)).success


async def test_a_closed_pipeline_refuses_calls(tmp_path):
    async with open_pipeline(tmp_path, [add]) as h:
        pass
    result = await h.call("add", a=1)
    assert (result.failure.reason, result.audit.end) == ("closed", "refused")


@pytest.mark.spec("CALL-1")
async def test_a_tool_that_calls_exit_does_not_end_the_process(tmp_path):
    @tool()
    def leave() -> None:
        """Leave."""
        sys.exit("bye")

    async with open_pipeline(tmp_path, [leave]) as h:
        assert "bye" in (await h.call("leave")).error

"""The loop with a scripted model over HTTP: it lists tools, dispatches calls, returns results, and reports how it ended."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart

from engine.agent.budget import Budget, Finish
from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.model import ModelClient
from engine.agent.conversation import Conversation
from engine.agent.events import (
    CallFinished,
    CallProgress,
    CallStarted,
    Event,
    Replanned,
    Report,
    TextPiece,
    TurnStarted,
)
from engine.contract.failure import Failure, FailureClass
from engine.contract.prompt_block import NO_BLOCKS, PromptBlocks
from engine.contract.result import Audit, ToolResult
from engine.contract.run_summary import RunCall, RunSummary
from engine.contract.spec import Annotations, Origin, ToolSpec
from engine.contract.turn import Turn
from engine.formats.tool_call_text import RIGHT_FORM
from tests.agent.scripted_model import ScriptedModel, calls, fails, says, serving

READ = Annotations(read_only=True)


class Bench:
    """Lists and calls the given tools, in place of an engine."""

    def __init__(self, **tools: tuple[ToolSpec, Callable[..., Any]]) -> None:
        self.tools = tools
        self.queries: list[str | None] = []
        self.called: list[str] = []
        self.blocks = NO_BLOCKS
        self.summaries: list[RunSummary] = []

    async def can_repeat(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> bool:
        return False

    async def prompt_blocks(self, context: Turn | None, message: str) -> PromptBlocks:
        return self.blocks

    async def run_ended(self, context: Turn | None, summary: RunSummary) -> None:
        self.summaries.append(summary)

    async def get_active_tool_definitions(self, context: Turn, query: str | None = None) -> list[ToolSpec]:
        self.queries.append(query if query is not None else context.query)
        return [spec for spec, _ in self.tools.values()]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        turn: Turn | None = None,
        *,
        call_id: str = "",
        progress: Any = None,
        before_run: Any = None,
    ) -> ToolResult:
        self.called.append(name)
        if name not in self.tools:
            failure = Failure(FailureClass.DIAGNOSTIC, "unknown_tool")
            return ToolResult(success=False, error=f"There is no tool {name!r}.", failure=failure)
        value = await self.tools[name][1](**arguments)
        return value if isinstance(value, ToolResult) else ToolResult(success=True, output=value, message=str(value))


def tool(name: str, function: Callable[..., Any], annotations: Annotations = READ, **more: Any) -> Any:
    return {name: (ToolSpec(name=name, description=f"Does {name}.", annotations=annotations, **more), function)}


async def double(x: int) -> int:
    return 2 * x


async def give_up(reason: str = "", learned: str = "") -> ToolResult:
    value = {"signal": "abort_attempt", "reason": reason, "learned": learned}
    return ToolResult(success=True, output=value, message="Attempt ended.")


async def plan_anew(reason: str = "") -> ToolResult:
    return ToolResult(success=True, output={"signal": "replan", "reason": reason}, message="Strategy dropped.")


@asynccontextmanager
async def talking(
    model: ScriptedModel, host: Bench, *, native_tools: bool = True, **options: Any
) -> AsyncIterator[Conversation]:
    endpoint = ModelEndpoint("openai", "scripted", model.base_url, timeout_s=20, native_tools=native_tools)
    async with ModelClient(endpoint) as client:
        yield Conversation(host, client, **options)


def every_call_has_a_result(conversation: Conversation) -> bool:
    asked: list[str] = []
    answered: list[str] = []
    for message in conversation.history:
        if isinstance(message, ModelResponse):
            asked += [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
        if isinstance(message, ModelRequest):
            answered += [part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)]
    return asked == answered


@pytest.mark.spec("LOOP-1")
async def test_tool_calls_are_dispatched_and_their_results_returned_to_the_model_until_it_answers() -> None:
    host = Bench(**tool("double", double))
    async with serving(calls(("double", {"x": 21})), says("It is 42.")) as model:
        async with talking(model, host) as talk:
            report = await talk.run("What is twice 21?")
        assert model.tool_messages() == ["42"]
    assert (report.finish, report.answer, report.turns) == (Finish.ANSWER, "It is 42.", 2)
    assert [one.call.name for one in report.calls] == ["double"]


@pytest.mark.spec("LOOP-1")
async def test_the_tool_list_is_rebuilt_every_turn_from_the_latest_message() -> None:
    host = Bench()

    async def learn() -> str:
        host.tools |= tool("roman", double, origin=Origin.ACQUIRED)
        return "learned roman"

    host.tools |= tool("learn", learn)
    async with serving(calls(("learn", {}), text="I will learn it."), says("Done.")) as model:
        async with talking(model, host) as talk:
            await talk.run("Learn roman numerals")
            await talk.run("Now add two numbers")
        assert model.offered(0) == ["learn"]
        assert model.offered(1) == ["learn", "roman"]
    assert host.queries[0] == "Learn roman numerals"
    assert "I will learn it." in host.queries[1]
    assert host.queries[2] == "Now add two numbers"


@pytest.mark.spec("LOOP-1")
async def test_text_is_streamed_and_equals_the_final_answer() -> None:
    seen: list[Event] = []
    async with serving(says("A rather long answer.")) as model, talking(model, Bench(), on_event=seen.append) as talk:
        report = await talk.run("hello")
    pieces = [event.text for event in seen if isinstance(event, TextPiece)]
    assert len(pieces) > 1
    assert "".join(pieces) == report.answer == "A rather long answer."
    assert isinstance(seen[0], TurnStarted)


@pytest.mark.spec("LOOP-1")
async def test_without_streaming_the_same_run_gives_the_same_report() -> None:
    script = (calls(("double", {"x": 4})), says("8"))
    reports: list[Report] = []
    for stream in (True, False):
        async with serving(*script) as model, talking(model, Bench(**tool("double", double)), stream=stream) as talk:
            reports.append(await talk.run("twice 4"))
        assert ("stream" in model.requests[0] and model.requests[0]["stream"] is True) is stream
    assert reports[0].answer == reports[1].answer == "8"


async def test_read_only_calls_run_concurrently_and_other_calls_sequentially() -> None:
    running = 0
    most = 0

    async def work(**_: Any) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return "ok"

    for annotations, expected in ((READ, 3), (Annotations(), 1)):
        most = 0
        three = calls(("work", {}), ("work", {}), ("work", {}))
        async with serving(three, says("done")) as model:
            async with talking(model, Bench(**tool("work", work, annotations))) as talk:
                await talk.run("go")
            assert model.tool_messages() == ["ok"] * 3
        assert most == expected


@pytest.mark.spec("FMT-1")
async def test_a_tool_with_a_dot_in_its_name_is_called_by_its_provider_name() -> None:
    host = Bench(**tool("calc.double", double))
    async with serving(calls(("calc__double", {"x": 4})), says("8")) as model:
        async with talking(model, host) as talk:
            report = await talk.run("twice four?")
        assert model.offered(0) == ["calc__double"]
        assert model.tool_messages() == ["8"]
    assert host.called == ["calc.double"]
    assert [finished.call.name for finished in report.calls] == ["calc.double"]


@pytest.mark.spec("CALL-7")
async def test_a_call_with_effects_runs_after_earlier_calls_and_before_later_ones() -> None:
    order: list[str] = []

    def noting(name: str) -> Callable[..., Any]:
        async def work(**_: Any) -> str:
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")
            return name

        return work

    host = Bench(
        **tool("look", noting("look")), **tool("see", noting("see")), **tool("send", noting("send"), Annotations())
    )
    asked = calls(("look", {}), ("see", {}), ("send", {}), ("look", {}))
    async with serving(asked, says("done")) as model:
        async with talking(model, host) as talk:
            await talk.run("go")
        assert model.tool_messages() == ["look", "see", "send", "look"]
    assert order[:2] == ["look begins", "see begins"]
    assert order[4:] == ["send begins", "send ends", "look begins", "look ends"]


async def test_invalid_json_arguments_are_explained_to_the_model_and_nothing_is_called() -> None:
    host = Bench(**tool("double", double))
    async with serving(calls(("double", "{x: 1")), says("sorry")) as model:
        async with talking(model, host) as talk:
            report = await talk.run("go")
        assert "must be one JSON object" in model.tool_messages()[0]
        assert "{x: 1" in model.tool_messages()[0]
    assert host.called == []
    assert report.calls[0].result.failure is not None
    assert report.calls[0].result.failure.failure_class is FailureClass.DIAGNOSTIC


@pytest.mark.spec("LOOP-2", "TOOL-11")
async def test_replan_asks_the_model_for_a_different_strategy() -> None:
    seen: list[Event] = []
    script = (calls(("replan", {"reason": "the file is not CSV"})), says("By another way: 7."))
    async with serving(*script) as model:
        async with talking(model, Bench(**tool("replan", plan_anew)), on_event=seen.append) as talk:
            report = await talk.run("sum it")
        last = model.requests[-1]["messages"][-1]
        assert last["role"] == "user"
        assert "the file is not CSV" in last["content"]
        assert "different strategy" in last["content"]
    assert report.finish is Finish.ANSWER
    assert any(isinstance(event, Replanned) for event in seen)


async def denied(**_: Any) -> ToolResult:
    failure = Failure(FailureClass.FATAL, "denied", may_have_started=False)
    return ToolResult(success=False, error="You may not do this.", failure=failure)


@pytest.mark.spec("FAIL-3", "LOOP-7")
async def test_a_fatal_failure_resets_the_strategy_automatically() -> None:
    seen: list[Event] = []
    host = Bench(**tool("pay", denied))
    script = (calls(("pay", {"x": 1}), ("pay", {"x": 2}), text="I will pay."), says("By another way."))
    async with serving(*script) as model:
        async with talking(model, host, on_event=seen.append) as talk:
            report = await talk.run("settle the bill")
            assert every_call_has_a_result(talk)
        said = [message for message in model.requests[-1]["messages"] if message["role"] == "user"]
        assert "pay cannot succeed (denied)" in said[-1]["content"]
        assert "different strategy" in said[-1]["content"]
    assert [event.reason for event in seen if isinstance(event, Replanned)] == ["pay cannot succeed (denied)"]
    assert host.queries[1] == "settle the bill"  # what the model said about the old strategy retrieves nothing
    assert report.finish is Finish.ANSWER


@pytest.mark.spec("LOOP-7")
async def test_other_failures_do_not_reset_the_strategy() -> None:
    seen: list[Event] = []
    async with serving(calls(("missing", {})), says("Sorry.")) as model:
        async with talking(model, Bench(), on_event=seen.append) as talk:
            await talk.run("go")
        assert model.requests[-1]["messages"][-1]["role"] == "tool"
    assert not any(isinstance(event, Replanned) for event in seen)


@pytest.mark.spec("LOOP-2", "TOOL-11")
async def test_abort_attempt_ends_the_run_with_its_reason_and_skips_later_calls() -> None:
    host = Bench(**tool("abort_attempt", give_up), **tool("double", double, Annotations()))
    script = calls(("abort_attempt", {"reason": "no access", "learned": "the port is closed"}), ("double", {"x": 1}))
    async with serving(script) as model, talking(model, host) as talk:
        report = await talk.run("connect")
        assert every_call_has_a_result(talk)
        assert len(model.requests) == 1
    assert report.finish is Finish.ABORTED
    assert "no access" in report.answer
    assert "the port is closed" in report.answer
    assert host.called == ["abort_attempt"]
    assert "Not run" in report.calls[1].result.error


async def test_only_the_control_tools_themselves_can_control_the_loop() -> None:
    async def forged() -> ToolResult:
        return ToolResult(success=True, output={"signal": "abort_attempt", "reason": "ha"}, message="ha")

    async with (
        serving(calls(("forged", {})), says("went on")) as model,
        talking(model, Bench(**tool("forged", forged, origin=Origin.ACQUIRED))) as talk,
    ):
        report = await talk.run("go")
    assert (report.finish, report.answer) == (Finish.ANSWER, "went on")


@pytest.mark.spec("LOOP-2")
async def test_the_last_turn_of_the_budget_is_reserved_for_a_summary() -> None:
    again = calls(("double", {"x": 1}))
    async with serving(again, again, says("Reached 2, not 4.")) as model:
        async with talking(model, Bench(**tool("double", double)), budget=Budget(turns=3)) as talk:
            report = await talk.run("go on for ever")
        assert model.requests[-1]["tool_choice"] == "none"
        assert "3 turns" in model.requests[-1]["messages"][-1]["content"]
    assert (report.finish, report.answer, report.turns) == (Finish.TURNS, "Reached 2, not 4.", 3)


@pytest.mark.spec("LOOP-2")
async def test_a_model_that_exceeds_the_budget_is_stopped_with_a_summary_of_its_calls() -> None:
    host = Bench(**tool("double", double))
    async with serving(calls(("double", {"x": 1}))) as model, talking(model, host, budget=Budget(turns=3)) as talk:
        report = await talk.run("go on for ever")
        assert every_call_has_a_result(talk)
        assert len(model.requests) == 3
    assert report.finish is Finish.TURNS
    assert "3 turns" in report.answer
    assert "2 of 3 tool calls succeeded" in report.answer


def turned_down(failure_class: FailureClass = FailureClass.FATAL) -> ToolResult:
    failure = Failure(failure_class, "denied", may_have_started=False)
    return ToolResult(success=False, error="You may not open this door.", failure=failure, audit=Audit(end="refused"))


@pytest.mark.spec("LOOP-2")
async def test_a_model_that_repeats_a_refused_call_is_stopped_after_the_third_refusal() -> None:
    async def door(number: int) -> ToolResult:
        return turned_down()

    host = Bench(**tool("double", double), **tool("door", door))
    again = calls(("door", {"number": 1}))
    async with serving(calls(("double", {"x": 1})), again) as model, talking(model, host) as talk:
        report = await talk.run("open the door")
        assert every_call_has_a_result(talk)
    assert host.called == ["double", "door", "door", "door"]
    assert (report.finish, report.turns) == (Finish.REPEATED, 4)
    assert "You may not open this door." in report.answer
    assert "1 of 4 tool calls succeeded" in report.answer


@pytest.mark.spec("LOOP-2")
@pytest.mark.parametrize("way", ["other arguments", "it may pass", "something changed"])
async def test_refused_calls_that_may_succeed_later_do_not_end_the_run(way: str) -> None:
    async def door(number: int) -> ToolResult:
        return turned_down(FailureClass.RETRYABLE if way == "it may pass" else FailureClass.FATAL)

    host = Bench(**tool("door", door), **tool("key", double, Annotations()))
    doors = [calls(("door", {"number": number if way == "other arguments" else 0})) for number in range(4)]
    script = [*doors[:2], calls(("key", {"x": 1})), *doors[2:]] if way == "something changed" else doors
    async with serving(*script, says("It stays shut.")) as model, talking(model, host) as talk:
        report = await talk.run("open the door")
    assert (report.finish, report.answer) == (Finish.ANSWER, "It stays shut.")


@pytest.mark.spec("LOOP-2")
async def test_tool_calls_beyond_the_budget_get_results_but_are_not_run() -> None:
    host = Bench(**tool("double", double))
    three = calls(("double", {"x": 1}), ("double", {"x": 2}), ("double", {"x": 3}))
    async with serving(three, says("Two of three.")) as model:
        async with talking(model, host, budget=Budget(tool_calls=2)) as talk:
            report = await talk.run("go")
        assert model.tool_messages()[:2] == ["2", "4"]
        assert "budget of 2 tool calls" in model.tool_messages()[2]
    assert host.called == ["double", "double"]
    assert (report.finish, report.answer) == (Finish.TOOL_CALLS, "Two of three.")


@pytest.mark.spec("LOOP-2")
async def test_exceeding_the_token_budget_ends_the_run() -> None:
    host = Bench(**tool("double", double))
    async with (
        serving(calls(("double", {"x": 1}), text="Thinking.", tokens=5000)) as model,
        talking(model, host, budget=Budget(tokens=4000)) as talk,
    ):
        report = await talk.run("go")
        assert every_call_has_a_result(talk)
    assert report.finish is Finish.TOKENS
    assert "4000 tokens" in report.answer
    assert "Thinking." in report.answer
    assert host.called == []


@pytest.mark.spec("LOOP-2", "CALL-1", "CALL-7")
async def test_exceeding_the_wall_time_cancels_running_calls_and_every_call_has_a_result() -> None:
    cancelled = asyncio.Event()

    async def sleep_on() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    host = Bench(**tool("sleep_on", sleep_on, Annotations()), **tool("double", double))
    script = calls(("double", {"x": 3}), ("sleep_on", {}), ("double", {"x": 1}))
    async with serving(script) as model, talking(model, host, budget=Budget(wall_s=5.0)) as talk:
        report = await talk.run("go")
        assert every_call_has_a_result(talk)
    assert cancelled.is_set()
    assert report.finish is Finish.WALL
    assert "5 seconds" in report.answer
    assert [one.result.success for one in report.calls] == [True, False, False]
    killed = report.calls[1].result.audit
    assert (killed.tool, killed.end, killed.attempts) == ("sleep_on", "killed", 1)
    assert killed.duration_ms > 0  # of the call itself, not of one that never ran


async def test_a_cancelled_run_leaves_a_valid_history() -> None:
    started = asyncio.Event()

    async def sleep_on() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    async with (
        serving(calls(("sleep_on", {})), says("Hello again.")) as model,
        talking(model, Bench(**tool("sleep_on", sleep_on))) as talk,
    ):
        task = asyncio.create_task(talk.run("go"))
        async with asyncio.timeout(20):
            await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert every_call_has_a_result(talk)
        report = await talk.run("are you there?")
    assert report.answer == "Hello again."


async def test_an_unreachable_model_ends_the_run_with_a_remedy() -> None:
    async with serving(fails(401, "bad key")) as model, talking(model, Bench()) as talk:
        report = await talk.run("hello")
    assert report.finish is Finish.MODEL_ERROR
    assert "Check the API key." in report.answer
    assert "Traceback" not in report.answer


async def test_events_report_every_call_and_its_result() -> None:
    seen: list[Event] = []
    async with (
        serving(calls(("double", {"x": 1}), ("missing", {})), says("ok")) as model,
        talking(model, Bench(**tool("double", double)), on_event=seen.append) as talk,
    ):
        await talk.run("go")
    finished = [(event.call.name, event.result.success) for event in seen if isinstance(event, CallFinished)]
    assert finished == [("double", True), ("missing", False)]


@pytest.mark.spec("CALL-11")
async def test_progress_of_a_tool_is_an_event_of_its_call() -> None:
    class Reporting(Bench):
        async def call(
            self,
            name: str,
            arguments: Mapping[str, Any],
            turn: Turn | None = None,
            *,
            call_id: str = "",
            progress: Any = None,
            before_run: Any = None,
        ) -> ToolResult:
            progress("half", 0.5)
            return await super().call(name, arguments, turn)

    seen: list[Event] = []
    async with (
        serving(calls(("double", {"x": 4})), says("8")) as model,
        talking(model, Reporting(**tool("double", double)), on_event=seen.append) as talk,
    ):
        await talk.run("twice 4?")
    of_call = [event for event in seen if isinstance(event, CallStarted | CallProgress | CallFinished)]
    assert [type(event) for event in of_call] == [CallStarted, CallProgress, CallFinished]
    assert of_call[1] == CallProgress(of_call[0].call, "half", 0.5)


async def test_an_empty_answer_is_reported_as_such() -> None:
    async with serving(says(" ")) as model, talking(model, Bench(), stream=False) as talk:
        report = await talk.run("hello")
    assert report.answer == "The model gave no answer."


@pytest.mark.spec("TAG-4")
async def test_a_model_without_tool_calls_receives_descriptions_and_calls_tools_in_text() -> None:
    host = Bench(**tool("double", double, parameters={"type": "object", "properties": {"x": {"type": "integer"}}}))
    first = 'I will compute.\n<tool_call>{"name": "double", "args": {"x": 4}}</tool_call>'
    seen: list[Event] = []
    async with serving(says(first), says("It is 8.")) as model:
        async with talking(model, host, native_tools=False, on_event=seen.append) as talk:
            report = await talk.run("twice four?")
        assert report.answer == "It is 8."
        assert not any("tools" in request for request in model.requests)
        told = str(model.requests[0]["messages"][0]["content"])
        assert "- double: Does double." in told
        assert '"x":{"type":"integer"}' in told
        said = [message["content"] for message in model.requests[1]["messages"]]
        assert '<tool_call>{"name": "double", "args": {"x": 4}}</tool_call>' in said[-2]
        assert said[-1] == '<tool_result name="double">\n8\n</tool_result>'
        assert not any(message["role"] == "tool" for message in model.requests[1]["messages"])
    assert host.called == ["double"]
    assert "".join(event.text for event in seen if isinstance(event, TextPiece)) == "I will compute.It is 8."


@pytest.mark.spec("TAG-4")
async def test_an_invalid_call_in_text_is_answered_with_the_correct_form_and_nothing_is_run() -> None:
    host = Bench(**tool("double", double))
    async with serving(says('<tool_call>{"name": "double", x}</tool_call>'), says("Sorry.")) as model:
        async with talking(model, host, native_tools=False) as talk:
            report = await talk.run("twice four?")
        answer = model.requests[1]["messages"][-1]["content"]
        assert "is invalid, and nothing was run" in answer
        assert RIGHT_FORM in answer
        assert '<tool_call>{"name": "double", x}</tool_call>' in model.requests[1]["messages"][-2]["content"]
    assert host.called == []
    assert report.calls[0].result.failure is not None
    assert report.calls[0].result.failure.failure_class is FailureClass.DIAGNOSTIC


@pytest.mark.spec("LOOP-8")
async def test_what_packs_add_is_in_the_instructions_and_beside_the_message() -> None:
    host = Bench(**tool("double", double))
    host.blocks = PromptBlocks("The user is called Ada.", "A lesson: add carefully.")
    async with serving(calls(("double", {"x": 21})), says("It is 42.")) as model:
        async with talking(model, host, system="Work.") as talk:
            await talk.run("What is twice 21?")
        first, second = (request["messages"] for request in model.requests)
    assert first[0]["content"] == second[0]["content"] == "Work.\nThe user is called Ada."
    assert first[1] == second[1]  # the prefix of the second request equals the first, for the provider's cache
    assert "What is twice 21?" in str(first[1]["content"])
    assert "A lesson: add carefully." in str(first[1]["content"])


@pytest.mark.spec("LOOP-8")
async def test_a_run_that_ends_is_summarized_for_packs() -> None:
    host = Bench(**tool("double", double))
    script = [calls(("double", {"x": 1}), ("missing", {})), says("Two."), fails(400)]
    async with serving(*script) as model, talking(model, host) as talk:
        await talk.run("Twice one?")
        await talk.run("And now?")
    first, second = host.summaries
    assert (first.message, first.answered, second.answered) == ("Twice one?", True, False)
    assert [(each.tool, each.success, each.reason) for each in first.calls] == [
        ("double", True, ""),
        ("missing", False, "unknown_tool"),
    ]
    assert isinstance(first.calls[0], RunCall)

"""`Conversation`: messages that the loop works on one after the other, with one model and one history.

Importing this module loads the model client, which takes seconds.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace

from pydantic_ai.messages import ModelMessage, ModelResponse

from engine.agent.active_run import ActiveRun, cancel_active_run
from engine.agent.budget import Budget, Finish
from engine.agent.clients.model import ModelClient, ModelError
from engine.agent.clients.usage import Price
from engine.agent.event_stream import EventListeners, stream_run
from engine.agent.events import Event, OnEvent, Report, TextPiece, ignore_event
from engine.agent.hooks import HookCalls, LoopHooks
from engine.agent.host import ToolHost
from engine.agent.journal.run_entries import RunBegun, RunEnded, RunResumed, RunWaits
from engine.agent.loop import LoopParts, LoopRun
from engine.agent.prompt import instructions
from engine.agent.runs import Runs
from engine.agent.window import ContextWindow, WindowLimits
from engine.contract.result import ToolCall, ToolResult
from engine.contract.run_summary import RunCall, RunSummary
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.turn.availability import EXECUTE_TOOL


class Conversation:
    """A conversation with one model. Its history stays valid however a run ends: every call in it has a result."""

    def __init__(
        self,
        host: ToolHost,
        model: ModelClient,
        *,
        turn: Turn | None = None,
        budget: Budget | None = None,
        on_event: OnEvent = ignore_event,
        system: str = instructions.SYSTEM,
        stream: bool = True,
        runs: Runs | None = None,
        leave_open: bool = False,
        may_wait: bool = True,
        window: WindowLimits | None = None,
        price: Price | None = None,
        hooks: Sequence[LoopHooks] = (),
        most_tools: int = 0,
    ) -> None:
        """Start an empty conversation.

        Args:
            host: Lists and calls the tools.
            model: The client of the model.
            turn: The user, agent and features of every turn.
            budget: The limits of the work on each message.
            on_event: Called with every event of a run.
            system: The instructions to the model.
            stream: Whether the model's text is streamed.
            runs: Stores the runs, so that they can be resumed; None to keep them in memory only.
            leave_open: Whether a run whose task is cancelled stays as it is, so that it can be resumed. If not, the run
                ends.
            may_wait: Whether a stored run that needs an approval, or a model that is down, stops and can be resumed. If
                not, the call is refused, or the run ends.
            window: The size of the model's window, and when parts of the conversation are moved out of the prompt. None
                if it is unknown: then parts are moved out when the provider refuses a request as too long.
            price: The price of the model; None if costs are not counted.
            hooks: Called before and after turns and calls.
            most_tools: The number of tools that a list may have. If a message has more, its turns have the tool search
                flow; 0 for no limit.
        """
        self._host = host
        self._model = model
        self._turn = turn or Turn()
        self._budget = budget or Budget()
        self._on_event = EventListeners(on_event)
        self._system = system
        self._stream = stream
        self._most_tools = most_tools
        self._runs = runs or Runs()
        self._leave_open = leave_open
        self._may_wait = may_wait
        self._parts = LoopParts(
            host=host,
            ask=self._ask,
            on_event=self._on_event,
            hooks=HookCalls(hooks, self._on_event),
            window=ContextWindow(self._ask_for_text, window, price),
            price=price,
        )
        self._run: ActiveRun | None = None  # the latest run

    @property
    def history(self) -> list[ModelMessage]:
        """The messages so far. Between two runs, every call in them has a result."""
        return self._run.state.history if self._run is not None else []

    async def run(self, message: str, run_id: str = "") -> Report:
        """Work on one message within the budget. Failures of the model or a tool are reported, not raised.

        Args:
            message: The message.
            run_id: The id of the run in the journal; generated if empty.

        Raises:
            ConfigError: The journal cannot be written.
            LeaseLost: Another process has taken over the run.
        """
        if self._run is not None and self._run.state.ended is None:
            await cancel_active_run(self._run)
        turn = await self._turn_for(message)
        run = self._run = self._runs.new(message, turn, self._budget, self._run, run_id)
        return await self._work_on(run, lambda: self._begin(run, message))

    async def resume(self, run: ActiveRun) -> Report:
        """Continue a run of the journal where it was interrupted or began to wait.

        Raises:
            ConfigError, LeaseLost: As for `run`.
        """
        self._run = run
        return await self._work_on(run, lambda: run.recorder.record(RunResumed()))

    def stream(self, message: str) -> AsyncGenerator[Event | Report]:
        """Work on one message as `run` does, and yield the events while they happen, and the report last.

        Closing the iterator, or cancelling the task that waits for it, cancels the run.
        """
        return stream_run(lambda: self.run(message), self._on_event)

    def stream_resumed(self, run: ActiveRun) -> AsyncGenerator[Event | Report]:
        """Continue a run as `resume` does, and yield the events and the report as `stream` does."""
        return stream_run(lambda: self.resume(run), self._on_event)

    async def _begin(self, run: ActiveRun, message: str) -> None:
        """Record the message, with what packs add to the prompt."""
        added = await self._host.prompt_blocks(run.turn, message)
        content = (message, added.message) if added.message else (message,)
        system = self._system + await self._about_other_tools(run.turn)
        told = "\n".join(part for part in (system, added.instructions) if part)
        await run.recorder.record(RunBegun(message, content, told))

    async def _about_other_tools(self, turn: Turn) -> str:
        """Return how the model calls tools that are not on the list; "" if the list has all tools."""
        if not turn.use_tool_search_flow:
            return ""
        listed = {spec.name for spec in await self._host.get_active_tool_definitions(turn)}
        return instructions.DISCOVERY if EXECUTE_TOOL in listed else instructions.PROGRAMS

    async def _turn_for(self, message: str) -> Turn:
        """Return the turn of a message, with the tool search flow if its list would be too long."""
        turn = self._turn
        if turn.use_tool_search_flow or not self._most_tools:
            return turn
        listed = await self._host.get_active_tool_definitions(turn, message)
        return replace(turn, use_tool_search_flow=True) if len(listed) > self._most_tools else turn

    async def _work_on(self, run: ActiveRun, begin: Callable[[], Awaitable[None]]) -> Report:
        """Work on a run until it ends or must wait, and release it."""
        run.recorder.leave_open = self._leave_open
        run.recorder.may_wait &= self._may_wait
        try:
            async with run.cancelled_on_request():
                report = await self._until_it_stops(run, begin)
        except asyncio.CancelledError:
            if run.state.ended is None and not run.recorder.leave_open:
                await run.recorder.record(RunEnded(Finish.CANCELLED, "Cancelled."))
            if not run.cancellation_is_handled():
                raise
            report = LoopRun(self._parts, run).account(Finish.CANCELLED, "Cancelled.")
        finally:
            await run.recorder.release()
        if run.state.ended is not None:
            await self._host.run_ended(run.turn, summary_of(run.state.message, report))
        return report

    async def _until_it_stops(self, run: ActiveRun, begin: Callable[[], Awaitable[None]]) -> Report:
        """Work on a run within its time, and record why it stopped."""
        work = LoopRun(self._parts, run)
        try:
            async with asyncio.timeout(run.budget.wall_s - run.recorder.clock.worked_s) as work.deadline:
                await begin()
                report = await work.to_the_end()
        except TimeoutError:
            if not work.deadline.expired():
                raise
            report = work.account(Finish.WALL)
        except ModelError as error:
            report = work.account(Finish.MODEL_ERROR, str(error))
        ended = run.state.ended
        if ended is not None:  # the answer is recorded, perhaps just before the time was up
            return work.report(ended.finish, ended.answer)
        if run.recorder.may_wait and report.finish is Finish.APPROVAL:
            await run.recorder.record(RunWaits("approval", report.answer))
        elif run.recorder.may_wait and report.finish is Finish.MODEL_ERROR:
            await run.recorder.record(RunWaits("model", report.answer))
        else:
            await run.recorder.record(RunEnded(report.finish, report.answer))
        return report

    async def _ask(self, specs: Sequence[ToolSpec], *, may_call: bool) -> ModelResponse:
        on_text = (lambda text: self._on_event(TextPiece(text))) if self._stream else None
        return await self._model.ask(self.history, tools=specs, may_call=may_call, on_text=on_text)

    async def _ask_for_text(self, messages: Sequence[ModelMessage], most_tokens: int) -> ModelResponse:
        return await self._model.ask(messages, max_tokens=most_tokens)


def summary_of(message: str, report: Report) -> RunSummary:
    """Return the summary of a run, which packs may learn from."""
    calls = tuple(_run_call(each.call, each.result) for each in report.calls)
    return RunSummary(message, report.finish is Finish.ANSWER, calls)


def _run_call(call: ToolCall, result: ToolResult) -> RunCall:
    failure, call_id = result.failure, result.audit.call_id or call.id
    if failure is None:
        return RunCall(call_id, call.name, result.success)
    return RunCall(call_id, call.name, result.success, failure.reason, failure.failure_class)

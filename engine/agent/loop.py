"""The autonomous loop: list the tools, ask the model, run its calls and return the results to it, until it answers.

Everything that a run learns is an entry of its journal (`engine.agent.run_entries`), and is stored before anything acts
on it. A run whose process was killed continues from its entries (docs/design/runs.md).

Importing this module loads the model client, which takes seconds.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart

from engine.agent import instructions
from engine.agent.active_run import ActiveRun, cancel_active_run
from engine.agent.announcement import announces_work
from engine.agent.budget import Budget, Finish, Spent
from engine.agent.calls import CallRound, control_signal, fatal_reason, requested_calls
from engine.agent.context_overflow import context_overflow
from engine.agent.event_stream import EventListeners, stream_run
from engine.agent.events import (
    Event,
    ModelAwaited,
    Nudged,
    OnEvent,
    PromptCompacted,
    Replanned,
    Report,
    TextPiece,
    TurnStarted,
    ignore_event,
)
from engine.agent.hooks import HookCalls, HookedTurn, LoopHooks
from engine.agent.host import ToolHost
from engine.agent.inbox import deliver_messages, why_stopped
from engine.agent.model import ModelClient, ModelError
from engine.agent.patience import Patience
from engine.agent.refused_calls import MOST
from engine.agent.run_entries import Compacted, LoopMessage, Responded, RunBegun, RunEnded, RunResumed, RunWaits
from engine.agent.run_share import share_of
from engine.agent.run_state import Round
from engine.agent.runs import Runs
from engine.agent.token_estimate import message_tokens
from engine.agent.usage import Price, usage_of
from engine.agent.window import ContextWindow, WindowLimits
from engine.contract.result import ToolCall, ToolResult
from engine.contract.run_summary import RunCall, RunSummary
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn


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
        """
        self._host = host
        self._model = model
        self._turn = turn or Turn()
        self._budget = budget or Budget()
        self._on_event = EventListeners(on_event)
        self._system = system + instructions.DISCOVERY if self._turn.use_tool_search_flow else system
        self._stream = stream
        self._runs = runs or Runs()
        self._leave_open = leave_open
        self._may_wait = may_wait
        self.window = ContextWindow(self._ask_for_text, window, price)
        self.price = price
        self.hooks = HookCalls(hooks, self._on_event)
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
        run = self._run = self._runs.new(message, self._turn, self._budget, self._run, run_id)
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
        told = "\n".join(part for part in (self._system, added.instructions) if part)
        await run.recorder.record(RunBegun(message, content, told))

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
            report = LoopRun(self, run).account(Finish.CANCELLED, "Cancelled.")
        finally:
            await run.recorder.release()
        if run.state.ended is not None:
            await self._host.run_ended(run.turn, summary_of(run.state.message, report))
        return report

    async def _until_it_stops(self, run: ActiveRun, begin: Callable[[], Awaitable[None]]) -> Report:
        """Work on a run within its time, and record why it stopped."""
        work = LoopRun(self, run)
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

    async def ask(self, specs: Sequence[ToolSpec], *, may_call: bool) -> ModelResponse:
        """Send the history to the model and return its response.

        Raises:
            ModelError: The request failed.
        """
        on_text = (lambda text: self._on_event(TextPiece(text))) if self._stream else None
        return await self._model.ask(self.history, tools=specs, may_call=may_call, on_text=on_text)

    async def _ask_for_text(self, messages: Sequence[ModelMessage], most_tokens: int) -> ModelResponse:
        return await self._model.ask(messages, max_tokens=most_tokens)


class LoopRun:
    """Works on one run until the model answers, the budget is used up, or the run must wait.

    What it does next depends only on the state of the run, which the journal can restore.
    """

    def __init__(self, conversation: Conversation, run: ActiveRun) -> None:
        self._talk = conversation
        self._host = conversation._host  # noqa: SLF001 -- a run is a part of its conversation
        self._on_event = conversation._on_event  # noqa: SLF001 -- for the same reason
        self._run = run
        self._state = run.state
        self._recorder = run.recorder
        self._budget = run.budget
        self.deadline = asyncio.timeout(None)

    async def to_the_end(self) -> Report:
        """Run the calls of the latest response, judge the results and ask the model again, until the run stops."""
        while True:
            report = await self._run_calls() or await self._finish_turn()
            if report is not None and not await self._must_go_on(report):
                return report
            await deliver_messages(self._run, self._on_event)
            if self._state.stopped is not None:
                return self.account(Finish.CANCELLED, why_stopped(self._state.stopped))
            if report is None:
                await self._ask()

    async def _must_go_on(self, report: Report) -> bool:
        """Return whether the run goes on although there is an answer, because a message was sent to it meanwhile."""
        ended = RunEnded(report.finish, report.answer)
        return report.finish is Finish.ANSWER and not await self._recorder.record_answer(ended)

    async def _run_calls(self) -> Report | None:
        """Run the calls that have no result yet. Return a report if one of them must wait for an approval."""
        latest = self._state.round
        if latest is None or not latest.open:
            return None
        calls = CallRound(latest, self._recorder, datetime.now(UTC), self._talk.hooks)
        await calls.run(self._host, self._hooked(self._state.spent.turns), self._on_event)
        return self.account(Finish.APPROVAL, calls.unapproved) if calls.unapproved else None

    def _hooked(self, number: int) -> HookedTurn:
        return HookedTurn(self._run.id, number, self._turn())

    async def _finish_turn(self) -> Report | None:
        """Call the hooks after a turn, and judge its results."""
        latest = self._state.round
        if latest is not None and not latest.judged:
            text = latest.response.response.text or ""
            await self._talk.hooks.after_turn(self._hooked(self._state.spent.turns), text, latest.outcomes)
        return self._judge()

    def _judge(self) -> Report | None:
        """Return a report if the run ends here. If a result demands a different strategy, tell the model."""
        latest, closing = self._state.round, self._state.closing
        if latest is not None and not latest.judged:
            if latest.response.announces and not self._state.nudged:
                self._recorder.note(LoopMessage(instructions.NUDGE, "nudge"))
                self._on_event(Nudged())
                return None
            if not latest.parts:
                answer = (latest.response.response.text or "").strip()
                return self.report(
                    closing or Finish.ANSWER, answer or f"The model gave no answer.\n{self._story()}".strip()
                )
            if closing is not None:
                return self.account(closing)
            report = self._signalled(latest) or self._stuck()
            if report is not None:
                return report
        used_up = self._state.spent.used_up(self._budget)
        return self.account(used_up) if used_up is not None else None

    def _signalled(self, latest: Round) -> Report | None:
        """Handle `abort_attempt`, `replan` and FATAL failures among the latest calls."""
        for outcome in latest.outcomes:
            signal, reason = control_signal(outcome.call.name, outcome.result)
            if signal == "abort_attempt":
                return self.report(Finish.ABORTED, f"Given up: {reason or 'no reason given'}\n{self._story()}".strip())
            if signal == "replan":
                self._reset_strategy(reason)
                return None
        fatal = fatal_reason(latest.outcomes)
        if fatal:
            self._reset_strategy(fatal)
        return None

    def _reset_strategy(self, reason: str) -> None:
        """Ask the model for a different strategy, once per turn."""
        self._recorder.note(LoopMessage(instructions.replan(reason), "replan"))
        self._on_event(Replanned(reason))

    def _stuck(self) -> Report | None:
        """Return a report that ends the run if the model has made the same refused call three times; None otherwise."""
        outcome = self._state.repeated
        if outcome is None:
            return None
        what = f"the model made the same call of `{outcome.call.name}` {MOST} times, and each was refused"
        return self.account(Finish.REPEATED, f"Stopped: {what}. {outcome.result.text}")

    async def _ask(self) -> None:
        """Ask the model, and record its response."""
        state = self._state
        if state.interrupted:
            self._recorder.note(LoopMessage(instructions.RESUMED, "resumed"))
        last = state.spent.last_turn(self._budget)
        if last is not None and state.closing is None:
            self._recorder.note(LoopMessage(instructions.closing(self._budget, last), "closing", last))
        turn = self._turn()
        specs = await self._host.get_active_tool_definitions(turn)
        await self._move_out(await self._talk.window.too_long(state, specs))
        self._on_event(TurnStarted(state.spent.turns + 1, turn.query or "", tuple(spec.name for spec in specs)))
        await self._recorder.flush()
        await self._talk.hooks.before_turn(self._hooked(state.spent.turns + 1))
        response = await self._response(specs)
        responded = self._responded(response, specs, self._talk.window.estimate(state, specs))
        if responded.calls:
            await self._recorder.record(responded)
        else:
            self._recorder.note(responded)  # it is recorded together with the end of the run

    async def _move_out(self, compacted: Compacted | None) -> bool:
        """Record what is moved out of the prompt, if anything is, and return whether it is."""
        if compacted is None:
            return False
        await self._recorder.record(compacted)
        self._on_event(PromptCompacted(len(compacted.shortened), compacted.upto))
        return True

    async def _response(self, specs: Sequence[ToolSpec]) -> ModelResponse:
        """Return the model's response.

        If the model is down, wait for it: this time does not count as work. If its window is too small, move parts of
        the conversation out of the prompt and ask once more.
        """
        refused = False
        patience = Patience(self._run.patience_s, answered=self._state.round is not None)
        clock, loop = self._recorder.clock, asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                return await self._talk.ask(specs, may_call=self._state.closing is None)
            except ModelError as error:
                overflow = None if refused else context_overflow(error)
                if overflow is not None:
                    refused = True
                    if await self._move_out(await self._talk.window.refused(self._state, specs, overflow)):
                        continue
                wait = patience.wait_after(error)
                if wait is None:
                    raise
                clock.exclude(loop.time() - began + wait)
                self.deadline.reschedule(loop.time() + self._budget.wall_s - clock.worked_s)
                self._on_event(ModelAwaited(str(error), wait))
                await asyncio.sleep(wait)

    def _responded(self, response: ModelResponse, specs: Sequence[ToolSpec], estimated: int) -> Responded:
        """Return the entry for a response, with the calls that the budget allows."""
        spent, budget = self._state.spent, self._budget
        parts = [part for part in response.parts if isinstance(part, ToolCallPart)]
        used = usage_of(response, self._talk.price, otherwise=estimated + message_tokens(response))
        over = self._state.closing or (Finish.TOKENS if spent.tokens + used.tokens >= budget.tokens else None)
        left = budget.tool_calls - spent.tool_calls if over is None else 0
        why_not = f"Not run: the budget of {budget.describe(over or Finish.TOOL_CALLS)} is used up."
        calls, stages = requested_calls(parts, specs, left)
        announces = bool(specs) and not parts and over is None and self._announces(response, used.tokens)
        return Responded(response, calls, stages, why_not, used.tokens, used.cached, used.cost, estimated, announces)

    def _announces(self, response: ModelResponse, tokens: int) -> bool:
        """Return whether a response without a call only announces work, and the budget allows to do it."""
        state = self._state
        spent = Spent(state.spent.turns + 1, state.spent.tool_calls, state.spent.tokens + tokens)
        if spent.last_turn(self._budget) is not None or spent.used_up(self._budget) is not None:
            return False
        before = state.round.response.calls if state.round is not None else ()
        if before and all(call.meta for call in before):  # the reply describes the agent itself
            return False
        return announces_work(response.text or "")

    def _turn(self) -> Turn:
        """Return the next turn. Its query is what the user wrote, the model's latest text, and names of used skills."""
        state = self._state
        used = " ".join(dict.fromkeys(state.skills))
        query = "\n".join(part for part in (state.message, state.added, state.said, used) if part)
        share = share_of(self._run) if self._run.id else None
        return replace(self._run.turn, query=query, share=share)

    def account(self, finish: Finish, detail: str = "") -> Report:
        """Return a report that says why a run ended without an answer, and what was achieved."""
        why = (
            detail or f"Stopped: the budget of {self._budget.describe(finish)} was used up before there was an answer."
        )
        return self.report(finish, f"{why}\n{self._story()}".strip())

    def _story(self) -> str:
        """Summarize what was achieved, from the recorded calls."""
        finished = self._state.finished
        done = [one for one in finished if one.result.success]
        effects = [effect for one in done for effect in one.result.side_effects]
        lines = [f"{len(done)} of {len(finished)} tool calls succeeded."] if finished else []
        lines += [f"What they changed: {', '.join(effects)}."] if effects else []
        lines += [f"The model's last words: {self._state.said}"] if self._state.said else []
        return "\n".join(lines)

    def report(self, finish: Finish, answer: str) -> Report:
        """Return a report with what the run has used and done so far."""
        state = self._state
        spent, calls = state.spent, tuple(state.finished)
        currency = self._talk.price.currency if self._talk.price is not None else ""
        usage = (spent.cached, spent.cost, currency)
        return Report(finish, answer, spent.turns, spent.tokens, calls, self._run.id, *usage)


def summary_of(message: str, report: Report) -> RunSummary:
    """Return the summary of a run, which packs may learn from."""
    calls = tuple(_run_call(each.call, each.result) for each in report.calls)
    return RunSummary(message, report.finish is Finish.ANSWER, calls)


def _run_call(call: ToolCall, result: ToolResult) -> RunCall:
    failure, call_id = result.failure, result.audit.call_id or call.id
    if failure is None:
        return RunCall(call_id, call.name, result.success)
    return RunCall(call_id, call.name, result.success, failure.reason, failure.failure_class)

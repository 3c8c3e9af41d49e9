"""The autonomous loop: list the tools, ask the model, run its calls and return the results to it, until it answers.

Everything that a run learns is an entry of its journal (`engine.agent.journal.run_entries`), and is stored before
anything acts on it. A run whose process was killed continues from its entries (docs/design/runs.md).

Importing this module loads the model client, which takes seconds.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from pydantic_ai.messages import ModelResponse, ToolCallPart

from engine.agent.active_run import ActiveRun
from engine.agent.announcement import announces_work
from engine.agent.budget import Finish, Spent
from engine.agent.calls import CallRound, control_signal, fatal_reason, requested_calls
from engine.agent.clients.context_overflow import context_overflow
from engine.agent.clients.model import ModelError
from engine.agent.clients.usage import Price, usage_of
from engine.agent.events import (
    ModelAwaited,
    Nudged,
    OnEvent,
    PromptCompacted,
    Replanned,
    Report,
    TurnStarted,
)
from engine.agent.hooks import HookCalls, HookedTurn
from engine.agent.host import ToolHost
from engine.agent.inbox import deliver_messages, why_stopped
from engine.agent.journal.run_entries import Compacted, LoopMessage, Responded, RunEnded
from engine.agent.journal.run_state import Round
from engine.agent.patience import Patience
from engine.agent.prompt import instructions
from engine.agent.prompt.token_estimate import message_tokens
from engine.agent.refused_calls import MOST
from engine.agent.run_share import share_of
from engine.agent.window import ContextWindow
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn


class AskModel(Protocol):
    """Sends the history of the conversation to the model and returns its response.

    Raises:
        ModelError: The request failed.
    """

    async def __call__(self, specs: Sequence[ToolSpec], *, may_call: bool) -> ModelResponse: ...


@dataclass(frozen=True, slots=True)
class LoopParts:
    """What all runs of a conversation share.

    Attributes:
        host: Lists and calls the tools.
        ask: Asks the model, which may call the tools that are given.
        on_event: Called with every event of a run.
        hooks: Called before and after turns and calls.
        window: Decides what is moved out of the prompt.
        price: The price of the model; None if costs are not counted.
    """

    host: ToolHost
    ask: AskModel
    on_event: OnEvent
    hooks: HookCalls
    window: ContextWindow
    price: Price | None


class LoopRun:
    """Works on one run until the model answers, the budget is used up, or the run must wait.

    What it does next depends only on the state of the run, which the journal can restore.
    """

    def __init__(self, parts: LoopParts, run: ActiveRun) -> None:
        self._parts = parts
        self._host = parts.host
        self._on_event = parts.on_event
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
            if report is not None:
                continue
            await self._recorder.flush()
            if self._recorder.cancel_wanted:  # its child runs may have been cancelled first
                return self.account(Finish.CANCELLED, "Cancelled.")
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
        calls = CallRound(latest, self._recorder, datetime.now(UTC), self._parts.hooks)
        await calls.run(self._host, self._hooked(self._state.spent.turns), self._on_event)
        return self.account(Finish.APPROVAL, calls.unapproved) if calls.unapproved else None

    def _hooked(self, number: int) -> HookedTurn:
        return HookedTurn(self._run.id, number, self._turn())

    async def _finish_turn(self) -> Report | None:
        """Call the hooks after a turn, and judge its results."""
        latest = self._state.round
        if latest is not None and not latest.judged:
            text = latest.response.response.text or ""
            await self._parts.hooks.after_turn(self._hooked(self._state.spent.turns), text, latest.outcomes)
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
        await self._move_out(await self._parts.window.too_long(state, specs))
        self._on_event(TurnStarted(state.spent.turns + 1, turn.query or "", tuple(spec.name for spec in specs)))
        await self._recorder.flush()
        await self._parts.hooks.before_turn(self._hooked(state.spent.turns + 1))
        response = await self._response(specs)
        responded = self._responded(response, specs, self._parts.window.estimate(state, specs))
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
                return await self._parts.ask(specs, may_call=self._state.closing is None)
            except ModelError as error:
                overflow = None if refused else context_overflow(error)
                if overflow is not None:
                    refused = True
                    if await self._move_out(await self._parts.window.refused(self._state, specs, overflow)):
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
        used = usage_of(response, self._parts.price, otherwise=estimated + message_tokens(response))
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
        return replace(self._run.turn, query=query, request=state.added or state.message, share=share)

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
        currency = self._parts.price.currency if self._parts.price is not None else ""
        usage = (spent.cached, spent.cost, currency)
        return Report(finish, answer, spent.turns, spent.tokens, calls, self._run.id, *usage)

"""The autonomous loop: list the tools, ask the model, run its calls and return the results to it, until it answers.

Importing this module loads the model client, which takes seconds.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    UserPromptPart,
)

from engine.agent import instructions
from engine.agent.budget import Budget, Finish, Spent
from engine.agent.calls import CallRound, control_signal, fatal_reason
from engine.agent.events import CallFinished, OnEvent, Replanned, Report, TextPiece, TurnStarted, ignore_event
from engine.agent.host import ToolHost
from engine.agent.model import ModelClient, ModelError
from engine.agent.refused_calls import MOST, RefusedCalls
from engine.contract.result import ToolCall, ToolResult
from engine.contract.run_summary import RunCall, RunSummary
from engine.contract.spec import Origin, ToolSpec
from engine.contract.turn import Turn

CHARACTERS_PER_TOKEN = 4  # the usual estimate for English text; used if the server reports no usage


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
        """
        self._host = host
        self._model = model
        self._turn = turn or Turn()
        self._budget = budget or Budget()
        self._on_event = on_event
        self._system = system + instructions.DISCOVERY if self._turn.use_tool_search_flow else system
        self._stream = stream
        self._known = ""  # what packs add to the instructions
        self.history: list[ModelMessage] = []

    async def run(self, message: str) -> Report:
        """Work on one message within the budget. Failures of the model or a tool are reported, not raised."""
        report = await self._work_on(message)
        await self._host.run_ended(self._turn, summary_of(message, report))
        return report

    async def _work_on(self, message: str) -> Report:
        run = LoopRun(self, message)
        try:
            async with asyncio.timeout(self._budget.wall_s) as deadline:
                await self._begin(message)
                return await run.to_the_end()
        except TimeoutError:
            if not deadline.expired():
                raise
            return run.account(Finish.WALL)
        except ModelError as error:
            return run.account(Finish.MODEL_ERROR, str(error))

    async def _begin(self, message: str) -> None:
        """Add the message to the history, with what packs add to the prompt."""
        added = await self._host.prompt_blocks(self._turn, message)
        self._known = added.instructions
        content = [message, added.message] if added.message else message
        self.say([UserPromptPart(content=content)])

    async def ask(self, specs: Sequence[ToolSpec], *, may_call: bool) -> ModelResponse:
        """Send the history to the model and add the response to it."""
        on_text = (lambda text: self._on_event(TextPiece(text))) if self._stream else None
        response = await self._model.ask(self.history, tools=specs, may_call=may_call, on_text=on_text)
        self.history.append(response)
        return response

    def say(self, parts: Sequence[ModelRequestPart]) -> None:
        """Add messages for the next request: results, and text from the user or the loop."""
        last = self.history[-1] if self.history else None
        # If the last request was never answered, extend it: some servers do not accept two requests in a row.
        if isinstance(last, ModelRequest):
            parts = [*last.parts, *parts]
            self.history.pop()
        instructions = "\n".join(part for part in (self._system, self._known) if part)
        self.history.append(ModelRequest(parts=list(parts), instructions=instructions))


class LoopRun:
    """Works on one message until the model answers or the budget is used up."""

    def __init__(self, conversation: Conversation, message: str) -> None:
        self._talk = conversation
        self._host = conversation._host  # noqa: SLF001 -- a run is a part of its conversation
        self._budget = conversation._budget  # noqa: SLF001 -- for the same reason
        self._on_event = conversation._on_event  # noqa: SLF001 -- for the same reason
        self._message = message
        self._said = ""  # the model's latest text
        self._names: list[str] = []  # names of acquired tools that were used in this run, which keeps them on the list
        self._finished: list[CallFinished] = []
        self._spent = Spent()
        self._refused = RefusedCalls()

    async def to_the_end(self) -> Report:
        while True:
            report = await self._one_turn()
            if report is not None:
                return report

    async def _one_turn(self) -> Report | None:
        used_up = self._spent.used_up(self._budget)
        if used_up is not None:
            return self.account(used_up)
        last = self._spent.last_turn(self._budget)
        if last is not None:
            self._talk.say([UserPromptPart(content=instructions.closing(self._budget, last))])
        turn = self._turn()
        specs = await self._host.get_active_tool_definitions(turn)
        self._spent.turns += 1
        names = tuple(spec.name for spec in specs)
        self._on_event(TurnStarted(self._spent.turns, turn.query or "", names))
        response = await self._talk.ask(specs, may_call=last is None)
        self._spent.tokens += tokens_of(response, self._talk.history)
        self._said = (response.text or "").strip() or self._said
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        if not calls:
            answer = (response.text or "").strip()
            return self._report(last or Finish.ANSWER, answer or f"The model gave no answer.\n{self._story()}".strip())
        await self._dispatch(calls, turn, specs, last)
        if last is not None:
            return self.account(last)
        return self._signalled(calls) or self._stuck(calls, specs)

    async def _dispatch(
        self, calls: Sequence[ToolCallPart], turn: Turn, specs: Sequence[ToolSpec], last: Finish | None
    ) -> None:
        """Run the calls and add their results to the history. If this is cancelled, the results so far are added."""
        over = last or (Finish.TOKENS if self._spent.tokens >= self._budget.tokens else None)
        left = self._budget.tool_calls - self._spent.tool_calls if over is None else 0
        why_not = f"Not run: the budget of {self._budget.describe(over or Finish.TOOL_CALLS)} is used up."
        around = CallRound(calls, left, why_not, specs)
        self._spent.tool_calls += min(len(calls), left)
        acquired = {spec.name for spec in specs if spec.origin is not Origin.STATIC}
        self._names += [outcome.call.name for outcome in around.outcomes if outcome.call.name in acquired]
        try:
            await around.run(self._host, turn, self._on_event)
        finally:
            self._finished += around.outcomes
            self._talk.say(around.returns())

    def _signalled(self, calls: Sequence[ToolCallPart]) -> Report | None:
        """Handle `abort_attempt`, `replan` and FATAL failures among the latest calls."""
        outcomes = self._finished[-len(calls) :]
        for outcome in outcomes:
            signal, reason = control_signal(outcome.call.name, outcome.result)
            if signal == "abort_attempt":
                return self._report(Finish.ABORTED, f"Given up: {reason or 'no reason given'}\n{self._story()}".strip())
            if signal == "replan":
                self._reset_strategy(reason)
                return None
        fatal = fatal_reason(outcomes)
        if fatal:
            self._reset_strategy(fatal)
        return None

    def _reset_strategy(self, reason: str) -> None:
        """Ask the model for a different strategy, once per turn."""
        self._talk.say([UserPromptPart(content=instructions.replan(reason))])
        self._said = ""
        self._on_event(Replanned(reason))

    def _stuck(self, calls: Sequence[ToolCallPart], specs: Sequence[ToolSpec]) -> Report | None:
        """Return a report that ends the run if the model has made the same refused call three times; None otherwise."""
        known = {name: spec for spec in specs for name in (spec.name, *spec.aliases)}
        for outcome in self._finished[-len(calls) :]:
            if self._refused.note(outcome, known.get(outcome.call.name)):
                what = f"the model made the same call of `{outcome.call.name}` {MOST} times, and each was refused"
                return self.account(Finish.REPEATED, f"Stopped: {what}. {outcome.result.text}")
        return None

    def _turn(self) -> Turn:
        """Return the next turn. Its query is the message, the model's latest text, and the names of used skills."""
        base = self._talk._turn  # noqa: SLF001 -- a run is a part of its conversation
        used = " ".join(dict.fromkeys(self._names))
        query = "\n".join(part for part in (self._message, self._said, used) if part)
        return replace(base, query=query)

    def account(self, finish: Finish, detail: str = "") -> Report:
        """Return a report that says why a run ended without an answer, and what was achieved."""
        why = (
            detail or f"Stopped: the budget of {self._budget.describe(finish)} was used up before there was an answer."
        )
        return self._report(finish, f"{why}\n{self._story()}".strip())

    def _story(self) -> str:
        """Summarize what was achieved, from the recorded calls."""
        done = [one for one in self._finished if one.result.success]
        failed = len(self._finished) - len(done)
        effects = [effect for one in done for effect in one.result.side_effects]
        lines = [f"{len(done)} of {len(done) + failed} tool calls succeeded."] if self._finished else []
        lines += [f"What they changed: {', '.join(effects)}."] if effects else []
        lines += [f"The model's last words: {self._said}"] if self._said else []
        return "\n".join(lines)

    def _report(self, finish: Finish, answer: str) -> Report:
        return Report(finish, answer, self._spent.turns, self._spent.tokens, tuple(self._finished))


def summary_of(message: str, report: Report) -> RunSummary:
    """Return the summary of a run, which packs may learn from."""
    calls = tuple(_run_call(each.call, each.result) for each in report.calls)
    return RunSummary(message, report.finish is Finish.ANSWER, calls)


def _run_call(call: ToolCall, result: ToolResult) -> RunCall:
    failure, call_id = result.failure, result.audit.call_id or call.id
    if failure is None:
        return RunCall(call_id, call.name, result.success)
    return RunCall(call_id, call.name, result.success, failure.reason, failure.failure_class)


def tokens_of(response: ModelResponse, history: Sequence[ModelMessage]) -> int:
    """Return the input and output tokens of one request, estimated if the server reports none."""
    reported = response.usage.input_tokens + response.usage.output_tokens
    return reported or sum(len(repr(message.parts)) for message in history) // CHARACTERS_PER_TOKEN

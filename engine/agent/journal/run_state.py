"""`RunState`: everything the loop knows about a run. It changes only by the entries of the run's journal.

The loop applies each entry when it records it, and a resumed run applies the recorded ones. There is therefore one
place that says what an entry means, and a resumed run is in the state in which it was interrupted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from engine.agent.budget import Finish, Spent
from engine.agent.events import CallFinished
from engine.agent.journal.run_entries import (
    CallBegun,
    CallEnded,
    Compacted,
    Entry,
    LoopMessage,
    MessageDelivered,
    Responded,
    RunBegun,
    RunEnded,
    RunResumed,
    RunWaits,
)
from engine.agent.prompt.compaction import CompactionPlan, compact
from engine.agent.prompt.instructions import message_from
from engine.agent.prompt.prompt_parts import PersonPart, RecapPart, ResultNote
from engine.agent.refused_calls import RefusedCalls
from engine.contract.moved_content import RESULT
from engine.contract.result import GRANTED_TOKENS, ToolCall, ToolResult
from engine.stores.run_inbox import PERSON

# The tokens that a provider reports are at least and at most so many times the estimated ones. Other numbers are wrong.
_LEAST_RATIO, _MOST_RATIO = 0.5, 4.0


@dataclass(slots=True)
class Round:
    """The latest response, and what is known about its calls.

    Attributes:
        parts: The calls as the model made them.
        calls: The same calls, by the names of the engine's tools.
        results: The results so far, by the position of the call.
        begun: The calls that were begun and may not simply be repeated; the value says whether the call has a key.
        judged: Whether the loop has dealt with the signals in the results.
    """

    response: Responded
    parts: list[ToolCallPart] = field(init=False)
    calls: list[ToolCall] = field(init=False)
    results: dict[int, ToolResult] = field(default_factory=dict)
    begun: dict[int, bool] = field(default_factory=dict)
    judged: bool = False

    def __post_init__(self) -> None:
        self.parts = [part for part in self.response.response.parts if isinstance(part, ToolCallPart)]
        self.calls = [
            ToolCall(call.name, part.args_as_dict(), part.tool_call_id)
            for part, call in zip(self.parts, self.response.calls, strict=True)
        ]

    @property
    def open(self) -> bool:
        """Whether a call has no result yet."""
        return len(self.results) < len(self.parts)

    @property
    def outcomes(self) -> list[CallFinished]:
        """The calls with their results, in the order of the response."""
        return [CallFinished(call, self.results[at]) for at, call in enumerate(self.calls) if at in self.results]

    @property
    def returns(self) -> list[ToolReturnPart]:
        """The results as messages for the model. Every call must have one."""
        return [
            ToolReturnPart(
                part.tool_name, _text(self.results[at]), tool_call_id=part.tool_call_id, metadata=self._note(at)
            )
            for at, part in enumerate(self.parts)
        ]

    def _note(self, at: int) -> ResultNote:
        call, result = self.response.calls[at], self.results[at]
        handle = f"{RESULT}{result.audit.call_id}" if result.audit.call_id else ""
        return ResultNote(handle, call.name, call.acquired, result.success, result.side_effects)


@dataclass(slots=True)
class RunState:
    """The state of one run.

    Attributes:
        history: The messages of the conversation. In those before an open round, every call has a result.
        message: The user's message.
        added: The latest message that a person added to the run; "" if there is none.
        said: The model's latest text, unless the strategy was abandoned since.
        skills: The names of skills that were used, which keeps them on the list.
        finished: The calls that have a result, in the order of the responses.
        repeated: The call that was refused as often as a run permits; None if there is none.
        round: The latest response; None before the first.
        window: The size of the model's window in tokens, if a refusal has told it; 0 otherwise.
        tokens_per_estimated: The tokens that the provider reported for the latest request, per estimated token.
        closing: The limit that was announced to the model before its last turn.
        changed: Whether a call has succeeded that may have changed something.
        interrupted: Whether the model must be told that the run was interrupted.
        nudged: Whether the model was told to do what it had only announced.
        read_upto: The number of the latest message of the inbox that was delivered.
        stopped: The message that stops the run, if there is one.
        waits: What the run waits for, if it does.
        ended: How the run ended, if it did.
    """

    history: list[ModelMessage]
    message: str = ""
    instructions: str = ""
    added: str = ""
    said: str = ""
    skills: list[str] = field(default_factory=list)
    finished: list[CallFinished] = field(default_factory=list)
    repeated: CallFinished | None = None
    spent: Spent = field(default_factory=Spent)
    round: Round | None = None
    window: int = 0
    tokens_per_estimated: float = 1.0
    closing: Finish | None = None
    changed: bool = False
    interrupted: bool = False
    nudged: bool = False
    read_upto: int = 0
    stopped: MessageDelivered | None = None
    waits: RunWaits | None = None
    ended: RunEnded | None = None
    _refused: RefusedCalls = field(default_factory=RefusedCalls)

    @classmethod
    def after(cls, earlier: "RunState | None") -> Self:
        """Return the state of a new run that continues the conversation of another one."""
        if earlier is None:
            return cls([])
        return cls(earlier.history, window=earlier.window, tokens_per_estimated=earlier.tokens_per_estimated)

    def apply(self, entry: Entry) -> None:
        """Change the state by one entry."""
        match entry:
            case RunBegun():
                self.message, self.instructions = entry.message, entry.instructions
                self._say([PersonPart(content=list(entry.content) if len(entry.content) > 1 else entry.message)])
            case Responded():
                self._respond(entry)
            case CallBegun() if self.round is not None:
                self.round.begun[entry.call] = self.round.begun.get(entry.call, True) and entry.keyed
            case CallEnded() if self.round is not None:
                self.round.results[entry.call] = entry.result
                if not self.round.open:
                    self._close_round(self.round)
            case LoopMessage() | MessageDelivered() | Compacted():
                self._change_prompt(entry)
            case RunResumed():
                self.waits = None
                self.interrupted = self.changed
            case RunWaits():
                self.waits = entry
            case RunEnded():
                self.ended = entry
            case _:
                raise ValueError(f"The entry {entry.kind} needs a response before it.")

    def _respond(self, entry: Responded) -> None:
        self.history.append(entry.response)
        self.round = Round(entry)
        self.spent.turns += 1
        self.spent.add(entry.tokens, entry.cached, entry.cost)
        reported = entry.response.usage.input_tokens
        if entry.estimated and reported:
            self.tokens_per_estimated = min(max(reported / entry.estimated, _LEAST_RATIO), _MOST_RATIO)
        self.spent.tool_calls += sum(len(stage) for stage in entry.stages)
        self.said = (entry.response.text or "").strip() or self.said
        self.skills += [call.name for call in entry.calls if call.acquired]

    def _close_round(self, closed: Round) -> None:
        """Add the results to the history, now that every call has one."""
        self._say(closed.returns)
        self.finished += closed.outcomes
        for outcome, call in zip(closed.outcomes, closed.response.calls, strict=True):
            self.changed = self.changed or (outcome.result.success and not call.read_only)
            if not call.acquired:  # tokens that a tool gave to child runs, or got back from them
                self.spent.tokens += int(outcome.result.audit.data.get(GRANTED_TOKENS, 0))
            if self._refused.note(outcome, read_only=call.read_only) and self.repeated is None:
                self.repeated = outcome

    def _change_prompt(self, entry: LoopMessage | MessageDelivered | Compacted) -> None:
        if isinstance(entry, Compacted):
            self._compact(entry)
        else:
            self._hear(entry)

    def _compact(self, entry: Compacted) -> None:
        recap = RecapPart(content=entry.text, recap=entry.recap) if entry.recap is not None else None
        compact(self.history, CompactionPlan(entry.shortened, entry.upto), recap)
        self.window = entry.window
        self.spent.add(entry.tokens, entry.cached, entry.cost)

    def _hear(self, entry: LoopMessage | MessageDelivered) -> None:
        if self.round is not None:
            self.round.judged = True
        if isinstance(entry, MessageDelivered):
            self._receive(entry)
            return
        part = PersonPart if entry.about == "person" else UserPromptPart
        self._say([part(content=entry.text)])
        match entry.about:
            case "replan":
                self.said = ""
            case "closing":
                self.closing = entry.finish
            case "resumed":
                self.interrupted = False
            case "nudge":
                self.nudged = True
            case "person":  # a new message has a budget of its own
                self.message, self.added, self.said, self.closing, self.repeated = entry.text, "", "", None, None
                self.nudged, self.spent, self._refused = False, Spent(), RefusedCalls()

    def _receive(self, entry: MessageDelivered) -> None:
        self.read_upto = entry.number
        if entry.stop:
            self.stopped = entry
        elif entry.sender == PERSON:
            self.added = entry.text
            self._say([PersonPart(content=entry.text)])
        else:
            self._say([UserPromptPart(content=message_from(entry.sender, entry.text))])

    def _say(self, parts: Sequence[ModelRequestPart]) -> None:
        """Add messages for the next request: results, and text from the user or the loop."""
        last = self.history[-1] if self.history else None
        # If the last request was never answered, extend it: some servers do not accept two requests in a row.
        if isinstance(last, ModelRequest):
            parts = [*last.parts, *parts]
            self.history.pop()
        self.history.append(ModelRequest(parts=list(parts), instructions=self.instructions))


def _text(result: ToolResult) -> str:
    return result.text or ("Done." if result.success else "Failed.")

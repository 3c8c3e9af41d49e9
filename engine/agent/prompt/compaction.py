"""Decides what is moved out of the prompt before the model's window is full, and takes it out (LOOP-6).

First long results are replaced by short texts with their handles, oldest first. If this is not enough, the oldest turns
are replaced by a recap. The results that the model has not seen yet come last, and keep their beginnings and ends. A
call is never separated from its result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolReturnPart

from engine.agent.prompt.prompt_parts import RecapPart, note_of
from engine.agent.prompt.token_estimate import CHARACTERS_PER_TOKEN, message_tokens, part_tokens, text_tokens

LONG = 200  # tokens; shorter results stay until their turn is moved out
KEPT = 160  # characters of the start of a long result that stay in the prompt
LEAST_UNSEEN = 300  # tokens of a result that the model has not seen yet


@dataclass(frozen=True, slots=True)
class ShortenedResult:
    """A result whose text in the prompt is replaced.

    Attributes:
        message: The position of the message in the history.
        part: The position of the result in the message.
        text: The new text.
        handle: How the full text can be read.
    """

    message: int
    part: int
    text: str
    handle: str


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What is moved out.

    Attributes:
        shortened: Results whose texts are replaced.
        upto: How many messages a recap replaces; 0 for none.
    """

    shortened: tuple[ShortenedResult, ...]
    upto: int


@dataclass(slots=True)
class _Room:
    """The messages with their sizes, while a plan is made."""

    history: Sequence[ModelMessage]
    sizes: list[int]
    shortened: dict[tuple[int, int], ShortenedResult]

    def shorten(self, message: int, part: int, text: str) -> None:
        found = self.history[message].parts[part]
        if isinstance(found, ToolReturnPart):
            before = self._tokens(message, part)
            handle = note_of(found).handle
            self.shortened[message, part] = ShortenedResult(message, part, text, handle)
            self.sizes[message] += self._tokens(message, part) - before

    def long_results(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the positions of the long results in a range of messages that have a handle, in order."""
        return [
            (at, index)
            for at in range(start, end)
            for index, part in enumerate(self.history[at].parts)
            if isinstance(part, ToolReturnPart) and note_of(part).handle and part_tokens(part) > LONG
        ]

    def text(self, message: int, part: int) -> str:
        found = self.history[message].parts[part]
        return str(found.content) if isinstance(found, ToolReturnPart) else ""

    def _tokens(self, message: int, part: int) -> int:
        known = self.shortened.get((message, part))
        return part_tokens(self.history[message].parts[part]) if known is None else text_tokens(known.text)


def plan_compaction(history: Sequence[ModelMessage], most: int, recap: int) -> CompactionPlan:
    """Return what must be moved out so that the messages have at most `most` tokens, as far as this is possible.

    Args:
        history: The messages, the last of which is a request that is about to be sent.
        most: The tokens that the messages may have, including a recap.
        recap: The tokens to reserve for a recap.
    """
    room = _Room(history, [message_tokens(each) for each in history], {})
    unseen = _first_unseen(history)
    for message, part in room.long_results(0, unseen):
        if sum(room.sizes) <= most:
            break
        room.shorten(message, part, _moved_text(room.text(message, part), _handle(history, message, part)))
    upto = 0
    if sum(room.sizes) > most:
        upto = _cut(room, unseen, most - recap)
    over = sum(room.sizes[upto:]) + (recap if upto else 0) - most
    unread = room.long_results(max(upto, unseen), len(history))
    for message, part in sorted(unread, key=lambda where: -len(room.text(*where))):
        if over <= 0:
            break
        text = room.text(message, part)
        size = text_tokens(text)
        kept = _ends(text, max(LEAST_UNSEEN, size - over), _handle(history, message, part))
        room.shorten(message, part, kept)
        over -= size - text_tokens(kept)
    return CompactionPlan(tuple(each for each in room.shortened.values() if each.message >= upto), upto)


def compact(history: list[ModelMessage], plan: CompactionPlan, recap: RecapPart | None) -> None:
    """Replace texts of results and the first messages of a history, as planned."""
    for each in plan.shortened:
        message = history[each.message]
        part = message.parts[each.part]
        if isinstance(message, ModelRequest) and isinstance(part, ToolReturnPart):
            parts = list(message.parts)
            parts[each.part] = ToolReturnPart(
                part.tool_name, each.text, tool_call_id=part.tool_call_id, metadata=part.metadata
            )
            history[each.message] = replace(message, parts=parts)
    if recap is None:
        return
    following = history[plan.upto] if plan.upto < len(history) else None
    if isinstance(following, ModelRequest):
        history[: plan.upto + 1] = [replace(following, parts=[recap, *following.parts])]
    else:
        told = next((m.instructions for m in reversed(history[: plan.upto]) if isinstance(m, ModelRequest)), None)
        history[: plan.upto] = [ModelRequest(parts=[recap], instructions=told)]


def _first_unseen(history: Sequence[ModelMessage]) -> int:
    """Return the position of the first message that belongs to what the model has not seen yet.

    If it has not seen results, their calls belong to them.
    """
    last = len(history) - 1
    has_results = last > 0 and any(isinstance(part, ToolReturnPart) for part in history[last].parts)
    return last - 1 if has_results else max(last, 0)


def _cut(room: _Room, unseen: int, most: int) -> int:
    """Return how many messages to replace by a recap so that the others have at most `most` tokens; 0 for none."""
    after = sum(room.sizes)
    best = 0
    for at in range(1, unseen + 1):
        after -= room.sizes[at - 1]
        if not _may_begin(room.history[at]) or (at == 1 and _is_recap(room.history[0])):
            continue
        best = at
        if after <= most:
            break
    return best


def _may_begin(message: ModelMessage) -> bool:
    """Return whether a history may begin with this message, after a recap: it has no results."""
    return isinstance(message, ModelResponse) or not any(isinstance(part, ToolReturnPart) for part in message.parts)


def _is_recap(message: ModelMessage) -> bool:
    return all(isinstance(part, RecapPart) for part in message.parts)


def _handle(history: Sequence[ModelMessage], message: int, part: int) -> str:
    found = history[message].parts[part]
    return note_of(found).handle if isinstance(found, ToolReturnPart) else ""


def _moved_text(text: str, handle: str) -> str:
    return f"{text[:KEPT].rstrip()} […] [Moved out: {len(text)} characters. Read them with recall(handle={handle!r}).]"


def _ends(text: str, tokens: int, handle: str) -> str:
    """Return the beginning and the end of a text, about `tokens` tokens in all."""
    notice = f"\n[… Shortened from {len(text)} characters. Read all of them with recall(handle={handle!r}). …]\n"
    per_token = min(CHARACTERS_PER_TOKEN, len(text) / max(text_tokens(text), 1))
    half = max(int((tokens - text_tokens(notice)) * per_token) // 2, 1)
    return f"{text[:half]}{notice}{text[-half:]}"

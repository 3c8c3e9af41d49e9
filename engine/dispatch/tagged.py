"""The tagged lines of a model's answer, called one after the other through the pipeline (TAG-2, TAG-3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.contract.result import ToolCall, ToolContext, ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.bind import CallRunner
from engine.formats.tags import TagRegistry, parse_response


def turn_asked(turn: Turn, context: ToolContext | None) -> Turn:
    """The turn of the user who is really asking: of the message's, where the host names one, else of the turn's."""
    if context is None or not context.user or context.user == turn.user:
        return turn
    return replace(turn, user=context.user)


@dataclass(frozen=True, slots=True)
class Answered:
    """display: the answer as people see it. calls: each with its result, in the order of the lines."""

    display: str
    calls: tuple[tuple[ToolCall, ToolResult], ...] = ()


async def answer_tags(
    text: str, tools: Sequence[ToolSpec], calls: CallRunner, turn: Turn, context: ToolContext | None = None
) -> Answered:
    """Call what the text asks for. Raises TagError when the tags of the tools cannot be used together.

    tools: those the model was told of. context: what handlers are to know; raw_arg and user are filled in. The calls
    are those of the context's user, if it names one. Nothing in the text can choose whose they are.
    """
    turn = turn_asked(turn, context)
    parsed = parse_response(text, TagRegistry(tools))
    base = context or ToolContext()
    done: list[tuple[ToolCall, ToolResult]] = []
    for found in parsed.calls:
        known = replace(base, raw_arg=found.raw_arg, user=turn.user)
        call = ToolCall(found.tool, found.arguments, context=known)
        done.append((call, await calls.call(call, turn)))
    return Answered(parsed.display, tuple(done))

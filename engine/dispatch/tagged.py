"""The tagged lines of a model's answer, called one after the other through the pipeline (TAG-2, TAG-3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.contract.result import TagContext, ToolCall, ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.bind import Calls
from engine.formats.tags import TagRegistry, parse_response


@dataclass(frozen=True, slots=True)
class Answered:
    """display: the answer as people see it. calls: each with its result, in the order of the lines."""

    display: str
    calls: tuple[tuple[ToolCall, ToolResult], ...] = ()


async def answer_tags(
    text: str, tools: Sequence[ToolSpec], calls: Calls, turn: Turn, context: TagContext | None = None
) -> Answered:
    """Call what the text asks for. Raises TagError when the tags of the tools cannot be used together.

    tools: those the model was told of. context: what handlers are to know; raw_arg and user are filled in.
    """
    parsed = parse_response(text, TagRegistry(tools))
    base = context or TagContext()
    done: list[tuple[ToolCall, ToolResult]] = []
    for found in parsed.calls:
        known = replace(base, raw_arg=found.raw_arg, user=base.user or turn.user)
        call = ToolCall(found.tool, found.arguments, tag=known)
        done.append((call, await calls.call(call, turn)))
    return Answered(parsed.display, tuple(done))

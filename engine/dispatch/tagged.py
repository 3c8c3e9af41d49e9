"""Runs the calls that a model's answer makes with response tags, one by one, through the pipeline (TAG-2, TAG-3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.contract.result import ToolCall, ToolContext, ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.bind import CallRunner
from engine.formats.tags import TagRegistry, parse_response


@dataclass(frozen=True, slots=True)
class Answered:
    """A model's answer after the calls in it have been run.

    Attributes:
        display: The answer as people see it, without the lines that are hidden from them.
        calls: Each call with its result, in the order of the lines.
    """

    display: str
    calls: tuple[tuple[ToolCall, ToolResult], ...] = ()


async def answer_tags(
    text: str, tools: Sequence[ToolSpec], calls: CallRunner, turn: Turn, context: ToolContext | None = None
) -> Answered:
    """Run the calls that the text contains.

    Args:
        text: The model's answer. Nothing in it can choose the user of the calls.
        tools: The tools that the model was offered.
        calls: Runs the calls.
        turn: The turn of the calls.
        context: Passed to the tools, with `raw_arg` and the turn's user filled in.

    Raises:
        TagError: The tags of the tools cannot be used together.
    """
    parsed = parse_response(text, TagRegistry(tools))
    base = context or ToolContext()
    done: list[tuple[ToolCall, ToolResult]] = []
    for found in parsed.calls:
        known = replace(base, raw_arg=found.raw_arg, user=turn.user)
        call = ToolCall(found.tool, found.arguments, context=known)
        done.append((call, await calls.call(call, turn)))
    return Answered(parsed.display, tuple(done))

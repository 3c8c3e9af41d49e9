"""Converts tool calls to and from text, for models without native tool calls (TAG-4).

The history contains structured calls and results, so that a conversation can continue with another model. Only what is
sent to the model and received from it is converted.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from engine.formats.tool_call_text import CLOSES, OPENS, RIGHT_FORM, TextCall, answer_to, parse_tool_calls

UNREADABLE = "tool_call"  # the name of a call whose own name cannot be read


def describe_tools(tools: Sequence[ToolDefinition]) -> str:
    """Return a text that tells a model which tools there are and how to call them."""
    if not tools:
        return ""
    lines = [f"To call a tool, write {RIGHT_FORM} and nothing after it. You will receive the result. The tools:"]
    for tool in tools:
        schema = json.dumps(tool.parameters_json_schema, ensure_ascii=False, separators=(",", ":"))
        lines.append(f"- {tool.name}: {tool.description}\n  args: {schema}")
    return "\n".join(lines)


def as_text(messages: Sequence[ModelMessage], tools: Sequence[ToolDefinition]) -> list[ModelMessage]:
    """Convert the calls and results in a history to text, and describe the tools in the last request's instructions."""
    made = [_request(each) if isinstance(each, ModelRequest) else _response(each) for each in messages]
    last = made[-1] if made else None
    description = describe_tools(tools)
    if isinstance(last, ModelRequest) and description:
        made[-1] = replace(last, instructions=f"{last.instructions or ''}\n\n{description}".strip())
    return made


def with_calls(response: ModelResponse) -> ModelResponse:
    """Convert the calls in a response's text to structured calls.

    An unreadable call is kept, so that it gets a result that says what is wrong.
    """
    parts: list[ModelResponsePart] = []
    for part in response.parts:
        if not isinstance(part, TextPart):
            parts.append(part)
            continue
        parsed = parse_tool_calls(part.content)
        if parsed.display:
            parts.append(TextPart(parsed.display))
        parts += [_part(call) for call in parsed.calls]
    return replace(response, parts=parts)


def problem_of(part: ToolCallPart) -> str:
    """Return the error of an unreadable call; "" for any other call."""
    if part.tool_name != UNREADABLE or not isinstance(part.args, str):
        return ""
    return answer_to(parse_tool_calls(f"{OPENS}{part.args}{CLOSES}").calls[0])


def _part(call: TextCall) -> ToolCallPart:
    return ToolCallPart(UNREADABLE, call.text) if call.problem else ToolCallPart(call.name, dict(call.arguments))


def _request(message: ModelRequest) -> ModelRequest:
    return replace(message, parts=list(_results_as_text(message.parts)))


def _results_as_text(parts: Iterable[ModelRequestPart]) -> Iterable[ModelRequestPart]:
    for part in parts:
        if isinstance(part, ToolReturnPart):
            yield UserPromptPart(f"<tool_result name={json.dumps(part.tool_name)}>\n{part.content}\n</tool_result>")
        else:
            yield part


def _response(message: ModelResponse) -> ModelResponse:
    parts: list[ModelResponsePart] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            written = part.args if part.tool_name == UNREADABLE else _written(part)
            parts.append(TextPart(f"{OPENS}{written}{CLOSES}"))
        else:
            parts.append(part)
    return replace(message, parts=parts)


def _written(part: ToolCallPart) -> str:
    return json.dumps({"name": part.tool_name, "args": part.args_as_dict()}, ensure_ascii=False)

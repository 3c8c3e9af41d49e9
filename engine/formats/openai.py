"""Converts `ToolSpec`s to tools of OpenAI's chat-completions and responses APIs.

Sources: https://platform.openai.com/docs/api-reference/chat/create (`tools[].function`) and
https://platform.openai.com/docs/api-reference/responses/create (`tools[]` of type function).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from engine.contract.spec import ToolSpec
from engine.formats.names import ProviderNames
from engine.formats.schema import object_schema


def tools_to_openai_format(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Convert tools for chat completions, keeping their order, because prompt caches depend on it.

    Strict mode is not used, because it would make optional arguments required.

    Raises:
        FormatError: A tool cannot be converted.
    """
    return [{"type": "function", "function": function} for function in _functions(list(tools))]


def tools_to_responses_format(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Convert tools for the responses API, keeping their order.

    Raises:
        FormatError: A tool cannot be converted.
    """
    return [{"type": "function", **function, "strict": False} for function in _functions(list(tools))]


def _functions(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    names = ProviderNames(tool.name for tool in tools)
    return [
        {"name": names.to_provider(tool.name), "description": tool.description, "parameters": object_schema(tool)}
        for tool in tools
    ]

"""Converts `ToolSpec`s to tools of Anthropic's messages API.

Source: https://docs.anthropic.com/en/api/messages, `tools[]`.
"""

from collections.abc import Iterable
from typing import Any

from engine.contract.spec import ToolSpec
from engine.formats.names import ProviderNames
from engine.formats.schema import object_schema


def tools_to_anthropic_format(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Convert tools, keeping their order, because prompt caches depend on it.

    Raises:
        FormatError: A tool cannot be converted.
    """
    told = list(tools)
    names = ProviderNames(tool.name for tool in told)
    return [
        {"name": names.to_provider(tool.name), "description": tool.description, "input_schema": object_schema(tool)}
        for tool in told
    ]

"""`ToolSpec` -> tools of the OpenAI chat-completions API.

Source: https://platform.openai.com/docs/api-reference/chat/create, `tools[].function`.
"""

from collections.abc import Iterable
from typing import Any

from engine.contract.spec import ToolSpec


def tool_to_openai_format(tool: ToolSpec) -> dict[str, Any]:
    """One function tool. The schema is passed as it is: no strict mode, which would change what is optional."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }


def tools_to_openai_format(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Chat-completions tools, in the order given: the order is part of a provider's prompt cache."""
    return [tool_to_openai_format(tool) for tool in tools]

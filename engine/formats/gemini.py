"""Converts `ToolSpec`s to function declarations of the Gemini API.

Source: https://ai.google.dev/api/caching#FunctionDeclaration. The arguments are described in the subset of JSON Schema
that Gemini supports, which is larger than Gemini's older schema format in `parameters`.
"""

from collections.abc import Iterable
from typing import Any

from engine.contract.spec import ToolSpec
from engine.formats.names import ProviderNames
from engine.formats.schema import GEMINI, narrowed, object_schema


def tools_to_gemini_format(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Convert tools to one `Tool` with a declaration for each, in order. Return an empty list if there are no tools.

    Raises:
        FormatError: A tool cannot be converted.
    """
    told = list(tools)
    names = ProviderNames(tool.name for tool in told)
    declarations = [
        {
            "name": names.to_provider(tool.name),
            "description": tool.description,
            "parametersJsonSchema": narrowed(object_schema(tool), GEMINI),
        }
        for tool in told
    ]
    return [{"functionDeclarations": declarations}] if declarations else []

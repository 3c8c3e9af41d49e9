"""Describes tools to the client library, with schemas that are adapted to the provider.

The library would adapt the schemas of all tools again for each request. With 22 tools, that is 40 % of the processor
time of a turn, so it is done here, once for each schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic_ai.models import Model
from pydantic_ai.profiles import JsonSchemaTransformer, ModelProfile
from pydantic_ai.tools import ToolDefinition

from engine.contract.spec import ToolSpec
from engine.formats.names import ProviderNames


@dataclass(frozen=True, slots=True, eq=False)
class _Schema:
    """A schema as a key of a cache: two are equal if they are the same object, since tools keep theirs."""

    value: Mapping[str, Any]

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Schema) and other.value is self.value


class ToolDefinitions:
    """Converts tools for one model."""

    def __init__(self, model: Model) -> None:
        """Take over the adaptation of schemas from the model."""
        self._transformer: type[JsonSchemaTransformer] | None = model.profile.get("json_schema_transformer")
        model.profile = ModelProfile(**{**model.profile, "json_schema_transformer": None})

    def of(self, tool: ToolSpec, names: ProviderNames) -> ToolDefinition:
        """Return the definition of a tool.

        It is not strict, since strict mode would make optional arguments required. The model calls the tool by a name
        that its provider accepts.

        Raises:
            UserError: The provider cannot express the schema.
        """
        schema = dict(tool.parameters) if self._transformer is None else adapted(tool.parameters, self._transformer)
        return ToolDefinition(
            name=names.to_provider(tool.name), description=tool.description, parameters_json_schema=schema, strict=False
        )


def adapted(schema: Mapping[str, Any], transformer: type[JsonSchemaTransformer]) -> dict[str, Any]:
    """Return a schema as a provider needs it. The result is shared and must not be changed."""
    return _adapted(_Schema(schema), transformer)


@lru_cache(maxsize=4096)
def _adapted(schema: _Schema, transformer: type[JsonSchemaTransformer]) -> dict[str, Any]:
    return transformer(dict(schema.value), strict=False).walk()

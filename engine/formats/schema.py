"""Converts a tool's JSON Schema to a provider's dialect.

Keywords that the dialect lacks are moved into the descriptions, so the result is never stricter than the original. This
suffices, because the converted schema only guides the model: the pipeline validates every call against the original.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from engine.contract.spec import ToolSpec

Schema = dict[str, Any]

# OpenAI and Anthropic do not allow these keywords at the root of the arguments.
NOT_AT_THE_ROOT = frozenset({"anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else"})

# The keywords that Gemini documents for `parametersJsonSchema`: https://ai.google.dev/api/caching#FunctionDeclaration
GEMINI = frozenset(
    {
        *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "anyOf", "oneOf"),
        *("items", "prefixItems", "minItems", "maxItems", "minimum", "maximum"),
        *("properties", "additionalProperties", "required"),
    }
)

_SCHEMAS_BY_NAME = frozenset({"properties", "$defs"})
_LISTS_OF_SCHEMAS = frozenset({"anyOf", "prefixItems"})
_SCHEMAS = frozenset({"items", "additionalProperties"})
_DESCRIBED_CHARACTERS = 300
_NOT_DESCRIBED = frozenset({"default", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly"})


class FormatError(ValueError):
    """A tool cannot be converted to a provider's format. The message says why."""


def object_schema(tool: ToolSpec) -> Schema:
    """Return the schema of a tool's arguments, with a plain object schema at the root.

    Raises:
        FormatError: The arguments are not an object.
    """
    given = tool.parameters
    if given.get("type") == "object" and "$ref" not in given and NOT_AT_THE_ROOT.isdisjoint(given):
        return {"type": "object", "properties": {}, **given}  # the common case
    schema = _inlined(dict(given))
    kind = schema.get("type", "object")
    if kind != "object":
        raise FormatError(
            f"{tool.name}: its arguments are of type {kind!r}; providers require an object. Put them into a field."
        )
    kept = {key: value for key, value in schema.items() if key not in NOT_AT_THE_ROOT}
    dropped = {key: value for key, value in schema.items() if key in NOT_AT_THE_ROOT}
    return {"type": "object", "properties": {}, **_described(kept, dropped)}


def narrowed(schema: Any, keywords: frozenset[str]) -> Schema:
    """Return the schema with only these keywords. It accepts everything that the original accepts.

    `const` becomes an `enum` with one value, and `oneOf` becomes `anyOf`, since with fewer keywords two branches may
    match.
    """
    if not isinstance(schema, Mapping):
        return {}  # `true`; or `false`, which has no equivalent in the dialect
    source = dict(schema)
    if "const" in source:
        source.setdefault("enum", [source.pop("const")])
    if "oneOf" in source:
        source.setdefault("anyOf", source.pop("oneOf"))
    if "definitions" in source:  # the older name of `$defs`
        source["$defs"] = {**source.pop("definitions"), **source.get("$defs", {})}
    if "patternProperties" in source:
        source.pop("additionalProperties", None)  # it would forbid members that the removed patterns allow
    made = {key: _within(key, value, keywords) for key, value in source.items() if key in keywords}
    return _described(made, {key: value for key, value in source.items() if key not in keywords})


def _within(key: str, value: Any, keywords: frozenset[str]) -> Any:
    """Return the value of a keyword, with its schemas narrowed."""
    if key == "$ref":
        return str(value).replace("#/definitions/", "#/$defs/", 1)
    if key in _SCHEMAS_BY_NAME and isinstance(value, Mapping):
        return {name: narrowed(each, keywords) for name, each in value.items() if each is not False}
    if key in _LISTS_OF_SCHEMAS and isinstance(value, list):
        return [narrowed(each, keywords) for each in value]
    if key in _SCHEMAS and not isinstance(value, bool):
        return narrowed(value, keywords)
    return value


def _described(kept: Schema, dropped: Schema) -> Schema:
    """Return `kept`, with the dropped keywords in its description."""
    described = "; ".join(_keywords_as_text(dropped))
    if not described:
        return kept
    before = str(kept.get("description", ""))
    return {**kept, "description": f"{before} ({described})" if before else described}


def _keywords_as_text(dropped: Schema) -> Iterator[str]:
    for key, value in dropped.items():
        if key not in _NOT_DESCRIBED and not key.startswith("x-"):
            text = f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)}"
            yield text if len(text) <= _DESCRIBED_CHARACTERS else f"{text[:_DESCRIBED_CHARACTERS]}…"


def _inlined(schema: Schema) -> Schema:
    """Return the local schema that a `$ref` at the root points to, merged with the rest of the root."""
    seen: set[str] = set()
    while isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        found = _pointed_at(schema, reference)
        if found is None:
            break
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    return {key: value for key, value in schema.items() if key != "$ref"} if seen else schema


def _pointed_at(schema: Schema, reference: str) -> Mapping[str, Any] | None:
    """Resolve a JSON pointer (RFC 6901) within the schema."""
    if not reference.startswith("#/"):
        return None
    found: Any = schema
    for step in reference.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None

"""Derives the JSON Schema of a tool's output from the return annotation of its function.

This module also runs in boxes, for skills (`acquired_skills.jobs.box_files`), so it imports nothing from this project.
"""

import json
from typing import Any, Never, NoReturn

from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

MOST_CHARACTERS = 16_384  # maximum length of one schema as JSON; models do not benefit from larger ones

_SAYS_NOTHING = (Any, object, None, type(None), Never, NoReturn)
# Keywords to omit. Some repeat names. Others are true of the Python value but not of its JSON: object keys become
# strings, and a set of 1 and "1" becomes a list with duplicates. Pydantic's patterns use look-around, for which
# matching does not take linear time.
_LEFT_OUT = frozenset(
    {"title", "default", "examples", "discriminator", "pattern", "uniqueItems", "propertyNames", "patternProperties"}
)
_NAMED = frozenset({"properties", "$defs"})  # in the values of these keywords, keys are names of fields or types
_DATA = frozenset({"const", "enum"})


class _OutputSchema(GenerateJsonSchema):
    """Generates schemas that describe values after serialization by `pydantic_core.to_jsonable_python`."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 -- declared so by pydantic

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 -- pydantic's signature
        return False

    def float_schema(self, schema: Any) -> dict[str, Any]:
        """Allow strings, because NaN and the infinities have no JSON form."""
        return {"anyOf": [super().float_schema(schema), {"enum": ["NaN", "Infinity", "-Infinity"]}]}

    # The length limits in the schema are omitted, because they count bytes, not the characters of the JSON string.
    def bytes_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ARG002 -- pydantic's signature
        return {"type": "string"}


def output_schema(annotation: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of this type's values in their serialized form.

    Return None if the annotation does not describe the value (`Any`, `object`, `None`), if the schema would be too
    large, or if JSON Schema cannot describe the type. Annotations are not enforced, so values must still be checked.
    """
    if any(annotation is each for each in _SAYS_NOTHING):
        return None
    try:
        schema = TypeAdapter(annotation).json_schema(mode="serialization", schema_generator=_OutputSchema)
        cleaned = _cleaned(schema)
        size = len(json.dumps(cleaned, allow_nan=False))
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError, ValueError, RecursionError):
        return None
    return cleaned if cleaned and size <= MOST_CHARACTERS else None


def _cleaned(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_cleaned(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = _LEFT_OUT | {"additionalProperties"} if "patternProperties" in schema else _LEFT_OUT
    return {
        key: {name: _cleaned(each) for name, each in value.items()}
        if key in _NAMED
        else value
        if key in _DATA
        else _cleaned(value)
        for key, value in schema.items()
        if key not in left_out
    }

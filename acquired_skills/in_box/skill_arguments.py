"""In the box: derives JSON Schemas from a signature and docstring, and converts JSON arguments to the annotated types.

Packed into the box beside a skill (`acquired_skills.jobs.box_files`), so it only imports files that are packed too.
"""

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pydantic
import pydantic_core
from pydantic.json_schema import GenerateJsonSchema

from engine.registry.docstring import (
    split_docstring,  # these two import nothing of ours; in the box they are beside this file
)
from engine.registry.output_schema import output_schema

_ATOMS = (int, float, str, bool, list, dict, object, None, type(None), Any)
_ARRAYS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_UNTYPED = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


class NotDescribable(Exception):
    """A parameter that JSON Schema cannot describe. The message says which, and what to use instead."""


class _Untitled(GenerateJsonSchema):
    """Omits the titles that pydantic derives from names: they repeat the names and cost the model tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  (pydantic's signature)
        return False


def describe(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the schemas of a function.

    Returns:
        ``parameters``: JSON Schema of the arguments object. ``plain``: JSON values need no conversion. ``returns``:
        JSON Schema of the value; absent when the return annotation does not say enough.

    Raises:
        NotDescribable: a parameter has no schema.
    """
    hints = _hints(function)
    _check_each(function, hints)
    schema = _model(function, hints).model_json_schema(by_alias=True, schema_generator=_Untitled)
    schema.pop("title", None)
    for shared in schema.get("$defs", {}).values():
        shared.pop("title", None)
    schema.setdefault("properties", {})
    plain = all(_is_plain(hints[name]) for name in inspect.signature(function).parameters)
    returns = output_schema(hints.get("return"))
    return {"parameters": schema, "plain": plain} | ({} if returns is None else {"returns": returns})


def accept(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the arguments to the annotated types. Raises ValueError, naming the field and what was expected."""
    names = list(inspect.signature(function).parameters)
    try:
        model = _model(function, _hints(function)).model_validate(dict(arguments))
    except pydantic.ValidationError as error:
        lines = [
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}, not {str(one['input'])[:80]!r}"
            for one in error.errors(include_url=False)
        ]
        raise ValueError("; ".join(lines)) from None
    return {name: getattr(model, f"p{i}") for i, name in enumerate(names) if f"p{i}" in model.model_fields_set}


def to_json(value: Any) -> Any:
    """Convert a value to plain JSON types.

    Supports models, dataclasses, enums, dates, sets and tuples. Raises TypeError.
    """
    if isinstance(value, collections.abc.Iterator):
        raise TypeError(f"the function returned a {type(value).__name__}; return a list")
    try:
        return pydantic_core.to_jsonable_python(value)
    except (pydantic_core.PydanticSerializationError, ValueError) as error:
        raise TypeError(f"the function returned a {type(value).__name__} that JSON cannot hold ({error})") from None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise NotDescribable(
            f"a type hint cannot be resolved ({error}); import the name it uses or correct it"
        ) from None
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in _UNTYPED:
            raise NotDescribable(f"`{_UNTYPED[parameter.kind]}{name}` cannot be described; name each parameter")
        if name not in hints:
            raise NotDescribable(f"parameter `{name}` has no type hint; add one")
    return hints


def _check_each(function: Callable[..., Any], hints: Mapping[str, Any]) -> None:
    for name in inspect.signature(function).parameters:
        try:
            pydantic.TypeAdapter(hints[name]).json_schema()
        except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticUndefinedAnnotation, TypeError) as error:
            kind = getattr(hints[name], "__name__", str(hints[name]))
            first = str(error).strip().split("\n", 1)[0]
            raise NotDescribable(
                f"parameter `{name}` has the type {kind}, which cannot arrive as JSON ({first}); take plain values "
                "(str, int, float, bool, list, dict), an Enum, a dataclass or a pydantic model, or a path to a file"
            ) from None


def _model(function: Callable[..., Any], hints: Mapping[str, Any]) -> type[pydantic.BaseModel]:
    """Return a model with one aliased field per parameter, so that a parameter may have any name (`schema`, `copy`)."""
    _, texts = split_docstring(inspect.getdoc(function), inspect.signature(function).parameters)
    fields: dict[str, Any] = {}
    for i, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        extra: dict[str, Any] = {"description": texts[name]} if name in texts else {}
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[f"p{i}"] = (hints[name], pydantic.Field(default, alias=name, **extra))
    return pydantic.create_model("Arguments", __config__=pydantic.ConfigDict(extra="forbid"), **fields)


def _is_plain(hint: Any) -> bool:
    """Return whether a JSON value of the right shape already is the Python value, so that no conversion is needed."""
    if any(hint is atom for atom in _ATOMS):
        return True
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return all(isinstance(value, str | int | bool | None) for value in inner)
    if origin in (typing.Union, types.UnionType):
        return all(_is_plain(part) for part in inner)
    if origin in _ARRAYS:
        return all(_is_plain(part) for part in inner)
    if origin in _OBJECTS:
        return inner[0] is str and _is_plain(inner[1])
    return False

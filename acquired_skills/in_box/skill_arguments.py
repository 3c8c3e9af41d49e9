"""Derives JSON Schemas from a signature and docstring, and converts JSON arguments to the annotated types.

This file is packed into the box with a skill (`acquired_skills.jobs.box_files`), so it imports only files that are
packed too. A parameter without a type hint uses the hint that was inferred for it
(`acquired_skills.in_box.inferred_hints`), or accepts any value.
"""

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pydantic
from pydantic.json_schema import GenerateJsonSchema

from acquired_skills.in_box.function_forms import LISTED, form_of, list_hint
from acquired_skills.in_box.hint_names import resolved_hints
from acquired_skills.in_box.inferred_hints import ANY, evaluated, untyped
from acquired_skills.in_box.json_values import with_plain_classes
from engine.registry.docstring import (
    split_docstring,  # neither of these modules imports anything else from Knackbox, and both are packed into the box
)
from engine.registry.output_schema import output_schema

_ATOMS = (int, float, str, bool, list, dict, object, None, type(None), Any)
_ARRAYS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_UNTYPED = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


class NotDescribable(Exception):
    """JSON Schema cannot describe a parameter. The message names the parameter and says what to use instead."""


class _Untitled(GenerateJsonSchema):
    """Generates JSON Schemas without the titles that pydantic derives from names.

    Such titles cost the model tokens, but tell it nothing new.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  (pydantic's signature)
        return False


def describe(function: Callable[..., Any], inferred: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the schemas of a function.

    Args:
        inferred: The inferred type hint of each parameter, by the name of the parameter.

    Returns:
        ``parameters``: JSON Schema of the arguments object. ``plain``: whether JSON values need no conversion.
        ``form``: how the function returns its results, for example as a generator. ``returns``: JSON Schema of the
        result; absent if the return annotation is not specific enough. ``inferred``: the type hint that is used for
        each parameter without a type hint in the code; absent if every parameter has one.

    Raises:
        NotDescribable: A parameter has no schema.
    """
    hints = _hints(function, inferred or {})
    _check_each(function, hints)
    schema = _model(function, hints).model_json_schema(by_alias=True, schema_generator=_Untitled)
    schema.pop("title", None)
    for shared in schema.get("$defs", {}).values():
        shared.pop("title", None)
    schema.setdefault("properties", {})
    form = form_of(function)
    plain = form == "function" and all(_is_plain(hints[name]) for name in inspect.signature(function).parameters)
    result = hints.get("return")
    returns = output_schema(list_hint(result))
    if "generator" in form or list_hint(result) is not result:
        returns = {**(returns or {"type": "array"}), "description": LISTED}
    found: dict[str, Any] = {"parameters": schema, "plain": plain, "form": form}
    if returns is not None:
        found["returns"] = returns
    bare = untyped(function)
    return found | ({"inferred": {name: (inferred or {}).get(name, ANY) for name in bare}} if bare else {})


def accept(
    function: Callable[..., Any], arguments: Mapping[str, Any], inferred: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Convert the arguments to the annotated or inferred types.

    Raises:
        ValueError: An argument does not fit. The message names the field and the expected value.
    """
    names = list(inspect.signature(function).parameters)
    try:
        model = _model(function, _hints(function, inferred or {})).model_validate(dict(arguments))
    except pydantic.ValidationError as error:
        lines = [
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}, not {str(one['input'])[:80]!r}"
            for one in error.errors(include_url=False)
        ]
        raise ValueError("; ".join(lines)) from None
    return {name: getattr(model, f"p{i}") for i, name in enumerate(names) if f"p{i}" in model.model_fields_set}


def _hints(function: Callable[..., Any], inferred: Mapping[str, str]) -> dict[str, Any]:
    try:
        hints = resolved_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise NotDescribable(
            f"a type hint cannot be resolved ({error}); import the name that it uses, or correct the hint"
        ) from None
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in _UNTYPED:
            raise NotDescribable(f"`{_UNTYPED[parameter.kind]}{name}` cannot be described; name each parameter")
        if name not in hints:
            hints[name] = evaluated(inferred.get(name, ANY), function.__module__)
        hints[name] = with_plain_classes(hints[name], function.__module__)
    return hints


def _check_each(function: Callable[..., Any], hints: Mapping[str, Any]) -> None:
    for name in inspect.signature(function).parameters:
        try:
            pydantic.TypeAdapter(hints[name]).json_schema()
        except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticUndefinedAnnotation, TypeError) as error:
            kind = getattr(hints[name], "__name__", str(hints[name]))
            first = str(error).strip().split("\n", 1)[0]
            raise NotDescribable(
                f"parameter `{name}` has the type {kind}, which cannot be passed as JSON ({first}); use a plain type "
                "(str, int, float, bool, list, dict), an Enum, a class that you define, or the path of a file"
            ) from None


def _model(function: Callable[..., Any], hints: Mapping[str, Any]) -> type[pydantic.BaseModel]:
    """Return a model with one aliased field per parameter, so that a parameter may have any name, even `schema`."""
    _, texts = split_docstring(inspect.getdoc(function), inspect.signature(function).parameters)
    fields: dict[str, Any] = {}
    for i, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        extra: dict[str, Any] = {"description": texts[name]} if name in texts else {}
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[f"p{i}"] = (hints[name], pydantic.Field(default, alias=name, **extra))
    return pydantic.create_model("Arguments", __config__=pydantic.ConfigDict(extra="forbid"), **fields)


def _is_plain(hint: Any) -> bool:
    """Return whether a JSON value that fits the annotation is already the Python value, without conversion."""
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

"""Reads the fields of instances of a skill's classes, and rebuilds instances from fields.

This module runs in the box. No method of the classes runs, not even `__init__`, `__setattr__`, `__reduce__` or a
property.
"""

import abc
import dataclasses
import types
import typing
from typing import Any

_NEUTRAL_BASES = (object, abc.ABC, typing.Generic, typing.Protocol)


def is_plain_class(kind: type) -> bool:
    """Return whether a class is written in Python and its instances consist of attributes and nothing else."""
    home = kind.__module__
    return (
        type(kind) in (type, abc.ABCMeta, type(typing.Protocol))
        and all(base in _NEUTRAL_BASES or base.__module__ == home for base in kind.__mro__)
        and not hasattr(kind, "__pydantic_serializer__")  # pydantic would not serialize the class by its attributes
    )


def attributes(value: Any) -> dict[str, Any]:
    """Return the instance attributes of an instance of a plain class, by name, in alphabetical order."""
    found: dict[str, Any] = {}
    for base in reversed(type(value).__mro__):
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):  # one of `__slots__`
                try:
                    found[member.__name__] = member.__get__(value)
                except AttributeError:
                    continue  # the attribute is not set
            elif name == "__dict__" and isinstance(member, types.GetSetDescriptorType):
                found |= member.__get__(value)
    return {name: found[name] for name in sorted(found)}


def fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of an instance, or None if instances of its class cannot be packed."""
    kind = type(value)
    if isinstance(value, tuple):
        names = getattr(kind, "_fields", None)
        return None if names is None else dict(zip(names, tuple.__iter__(value), strict=True))
    if is_plain_class(kind):
        return attributes(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(kind, "model_fields"):
        return {name: getattr(value, name) for name in kind.model_fields}
    return None


def blank(kind: Any) -> Any:
    """Return an instance without any fields. Its `__init__` does not run."""
    return kind.model_construct() if hasattr(kind, "model_construct") else object.__new__(kind)


def fill(made: Any, values: dict[str, Any]) -> None:
    """Set the fields of an instance, and remove all its other fields."""
    kind = type(made)
    if hasattr(kind, "model_construct"):
        made.__dict__.update(values)
        return
    if is_plain_class(kind):
        for name in attributes(made).keys() - values.keys():
            object.__delattr__(made, name)
    for name, each in values.items():
        object.__setattr__(made, name, each)

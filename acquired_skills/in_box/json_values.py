"""Converts the values of a skill to JSON, and describes the skill's plain classes to pydantic. Runs in the box.

A plain class is one that has attributes but is neither a dataclass nor a pydantic model.
"""

import collections
import collections.abc
import fractions
import functools
import inspect
import types
import typing
from typing import Annotated, Any, NotRequired

import pydantic
import pydantic_core
from pydantic_core import core_schema
from typing_extensions import TypedDict

from acquired_skills.in_box.array_json import array_hint, array_to_json
from acquired_skills.in_box.array_packing import is_array_value
from acquired_skills.in_box.hint_names import resolved_hints
from acquired_skills.in_box.own_classes import attributes, is_plain_class

_typed_dict: Any = TypedDict  # created at run time, which type checkers cannot follow
_MOST_LEVELS = 20  # levels of nesting searched for a part without a JSON form
_NOT_TEXT = "it is not UTF-8 text: return `base64.b64encode(data).decode()`, or write it to a file and return the path"
MOST_PARTS = 20_000  # maximum number of instances in one value


def to_json(value: Any, module: str = "") -> Any:
    """Convert a value to plain JSON types.

    Supports models, dataclasses, enums, dates, sets, tuples, fractions and ranges, and instances of the plain classes
    of `module`, which become objects with their attributes. Sets are sorted if possible.

    Raises:
        TypeError: The value has no JSON form.
    """
    if isinstance(value, collections.abc.Iterator):
        raise TypeError(f"the function returned a {type(value).__name__}; return a list")
    left = MOST_PARTS

    def fallback(unknown: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise TypeError("the function returned a value with too many parts")
        return _converted(unknown, module)

    try:
        return pydantic_core.to_jsonable_python(_with_sorted_sets(value), fallback=fallback)
    except (pydantic_core.PydanticSerializationError, ValueError, RecursionError) as error:
        kind = type(value).__name__
        raise TypeError(f"the function returned a {kind} that JSON cannot represent ({error})") from None


def describe_unsendable(value: Any, module: str) -> str:
    """Describe a value that `to_json` rejects: its type, and the part without a JSON form."""
    path, part = unsendable_part(value, module)
    try:
        to_json(part, module)
        reason = "JSON cannot represent it"
    except (TypeError, RecursionError) as error:
        reason = _NOT_TEXT if isinstance(part, bytes | bytearray) else f"{error}"[:200]
    if not path:
        return f"a value of type {type(value).__name__} ({reason})"
    return f"a {type(value).__name__} in which `result{path[:160]}` has the type {type(part).__name__} ({reason})"


def unsendable_part(value: Any, module: str) -> tuple[str, Any]:
    """Return the path and value of the innermost part that `to_json` rejects."""
    part, path = value, ""
    for _ in range(_MOST_LEVELS):
        inner = next(((key, each) for key, each in _parts(part) if not _is_sendable(each, module)), None)
        if inner is None:
            break
        path, part = f"{path}[{repr(inner[0])[:40]}]", inner[1]
    return path, part


def _is_sendable(value: Any, module: str) -> bool:
    try:
        to_json(value, module)
    except (TypeError, RecursionError):
        return False
    return True


def _parts(value: Any) -> list[tuple[Any, Any]]:
    if type(value) is dict:
        return list(value.items())
    return list(enumerate(value)) if type(value) in (list, tuple) else []


def _with_sorted_sets(value: Any) -> Any:
    """Return the value with its sets replaced by lists, which are sorted if their elements can be compared."""
    kind = type(value)
    if kind is list or kind is tuple:
        return [_with_sorted_sets(each) for each in value]
    if kind is dict:
        return {key: _with_sorted_sets(each) for key, each in value.items()}
    if kind is set or kind is frozenset:
        try:
            return sorted(value)
        except TypeError:
            return value
    return value


def _converted(value: Any, module: str) -> Any:
    if isinstance(value, fractions.Fraction):
        return str(value)
    if is_array_value(value):
        return array_to_json(value)
    if isinstance(value, range | collections.deque):
        return list(value)
    if type(value).__module__ == module and is_plain_class(type(value)):
        return attributes(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def with_plain_classes(hint: Any, module: str) -> Any:  # noqa: PLR0911 -- one return per kind
    """Return a type hint in which pydantic can handle arrays, tables, and the plain classes of a module."""
    known = array_hint(hint)
    if known is not None:
        return known
    if isinstance(hint, type) and not typing.get_args(hint):
        return _described(hint) if hint.__module__ == module and _is_unknown(hint) else hint
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return Annotated[(with_plain_classes(inner[0], module), *hint.__metadata__)]
    if origin is typing.Literal or not inner:
        return hint
    changed = tuple(with_plain_classes(each, module) if not isinstance(each, list) else each for each in inner)
    if changed == inner:
        return hint
    if origin in (typing.Union, types.UnionType):
        return typing.Union[changed]  # noqa: UP007 -- the members are only known here
    return hint.copy_with(changed) if hasattr(hint, "copy_with") else origin[changed]


def _is_unknown(kind: type) -> bool:
    return (
        is_plain_class(kind)
        and not hasattr(kind, "__dataclass_fields__")
        and not hasattr(kind, "__pydantic_core_schema__")
    )


@functools.cache
def _described(kind: type) -> Any:
    return Annotated[kind, _PlainClass(kind)]


class _PlainClass:
    """Tells pydantic how to make an instance of a plain class from a JSON object: by calling the class."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._mirror: Any = None

    def __get_pydantic_core_schema__(self, _: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._made, handler.generate_schema(self._object()))

    def _made(self, given: dict[str, Any]) -> Any:
        try:
            return self._kind(**given)
        except TypeError as error:
            raise ValueError(str(error)) from None

    def _object(self) -> Any:
        """Return the typed dictionary with the parameters of `__init__`."""
        if self._mirror is None:
            self._mirror = _typed_dict(self._kind.__name__, self._parameters())
            self._mirror.__doc__ = inspect.getdoc(self._kind) if self._kind.__doc__ else None
            self._mirror.__pydantic_config__ = pydantic.ConfigDict(extra="forbid")
        return self._mirror

    def _parameters(self) -> dict[str, Any]:
        kind = self._kind
        hints = _hints(kind) | _hints(inspect.getattr_static(kind, "__init__"))
        found: dict[str, Any] = {}
        for name, parameter in inspect.signature(kind).parameters.items():
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                continue
            hint = with_plain_classes(hints[name], kind.__module__) if name in hints else self._anything()
            found[name] = hint if parameter.default is inspect.Parameter.empty else NotRequired[hint]
        return found

    def _anything(self) -> Any:
        """Return the type for a parameter without a hint.

        It accepts any value. JSON objects in the value that fit the class become instances of it, which restores linked
        lists and trees.
        """
        own = _described(self._kind)
        nested = list[typing.Union[own, Any]]  # type: ignore[valid-type]  # noqa: UP007
        return Annotated[typing.Union[own, nested, Any], pydantic.Field(union_mode="left_to_right")]  # noqa: UP007


def _hints(of: Any) -> dict[str, Any]:
    try:
        return resolved_hints(of)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}

"""In the box: packs values as JSON that keeps their types, so that a skill and its tests need not share a process.

Lists, strings and numbers stay as they are; everything else is an object with one key, its kind. Of classes, only those
of the skill's own module are packed, as their fields; the methods of a value's class (such as `__eq__`) are not.
"""

import builtins
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import sys
import types
import uuid
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 60
_PLAIN_BITS = 63
_BY_TEXT: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "fraction": (fractions.Fraction, str, fractions.Fraction),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "path": (pathlib.PurePath, str, pathlib.Path),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "bytearray": (bytearray, bytearray.hex, bytearray.fromhex),
}


class NotPackable(Exception):
    """A value that cannot be packed."""


def packed(value: Any, module: str, depth: int = 0) -> Any:
    """Return a value as JSON. module: whose classes may be packed. Raises NotPackable."""
    if depth > MAX_DEPTH:
        raise NotPackable("nested too deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum) and type(value).__module__ == module:
        return {"enum": [type(value).__name__, value.name]}
    if isinstance(value, int):
        number = int(value)
        return number if number.bit_length() <= _PLAIN_BITS else {"int": hex(number)}
    if isinstance(value, float):
        return {"float": repr(float(value))} if value != value or value in (_INF, -_INF) else float(value)  # noqa: PLR0124
    if isinstance(value, str):
        text = str.__str__(value)
        return text if _is_utf8(text) else {"text": text.encode("utf-8", "surrogatepass").hex()}
    return _structured(value, module, depth + 1)


def unpacked(wire: Any, module: types.ModuleType) -> Any:  # noqa: PLR0911 -- one return per kind
    """Restore a value. module: has its classes. Raises NotPackable, for instance for a missing class."""
    if isinstance(wire, list):
        return [unpacked(each, module) for each in wire]
    if not isinstance(wire, dict):
        return wire
    ((kind, inner),) = wire.items()
    if kind in _BY_TEXT:
        return _BY_TEXT[kind][2](inner)
    make = _MADE.get(kind)
    if make is not None:
        return make(unpacked(inner, module))
    match kind:
        case "dict":
            return {unpacked(key, module): unpacked(each, module) for key, each in inner}
        case "enum":
            return _own(module, inner[0])[inner[1]]
        case "object":
            return _object(_own(module, inner[0]), {name: unpacked(each, module) for name, each in inner[1].items()})
    raise NotPackable(f"a {kind}")


def packed_exception(problem: BaseException, module: str) -> dict[str, Any]:
    """Return its types, nearest first, its arguments, its text, and its attributes where they can be packed."""
    kinds = [f"{kind.__module__}:{kind.__qualname__}" for kind in type(problem).__mro__[:-1]]
    found: dict[str, Any] = {"types": kinds[:20], "args": [], "text": str(problem)[:2_000]}
    for each in problem.args[:20]:
        try:
            found["args"].append(packed(each, module))
        except NotPackable:
            found["args"].append(str(each)[:2_000])
    return found


def unpacked_exception(wire: dict[str, Any], module: types.ModuleType) -> BaseException:
    """Restore an exception, with the nearest type known here."""
    for kind in wire["types"]:
        home, _, name = kind.partition(":")
        place = builtins if home == "builtins" else module if home == module.__name__ else sys.modules.get(home)
        found = vars(place).get(name) if place is not None else None
        if isinstance(found, type) and issubclass(found, BaseException):
            arguments = tuple(unpacked(each, module) for each in wire["args"])
            problem = found.__new__(found, *arguments)
            problem.args = arguments
            if home == module.__name__:
                problem.__dict__["_text"] = wire["text"]
            return problem
    return Exception(wire["text"])


_INF = float("inf")
_MADE: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "int": lambda text: int(text, 16),
    "float": float,
    "text": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    "complex": lambda pair: complex(*pair),
    "timedelta": lambda parts: dt.timedelta(*parts),
    "range": lambda parts: range(*parts),
}


def _structured(value: Any, module: str, depth: int) -> Any:  # noqa: C901, PLR0911 -- one branch per kind
    if type(value).__module__ == module:
        return {"object": [type(value).__name__, _fields(value, module, depth)]}
    match value:
        case list():
            return [packed(each, module, depth) for each in list.__iter__(value)]
        case tuple():
            return {"tuple": [packed(each, module, depth) for each in tuple.__iter__(value)]}
        case dict():
            pairs = list(dict.items(value))
            return {"dict": [[packed(key, module, depth), packed(each, module, depth)] for key, each in pairs]}
        case set() | frozenset():
            kind = "set" if isinstance(value, set) else "frozenset"
            return {kind: sorted((packed(each, module, depth) for each in value), key=repr)}
        case complex():
            return {"complex": [packed(value.real, module), packed(value.imag, module)]}
        case dt.timedelta():
            return {"timedelta": [value.days, value.seconds, value.microseconds]}
        case range():
            return {"range": [value.start, value.stop, value.step]}
    for kind, (known, written, _) in _BY_TEXT.items():
        if isinstance(value, known):
            return {kind: written(value)}
    raise NotPackable(f"a {type(value).__name__}")


def _fields(value: Any, module: str, depth: int) -> dict[str, Any]:
    """Return the fields of a data class, a pydantic model or a named tuple."""
    kind = type(value)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        found = dict(zip(kind._fields, tuple.__iter__(value), strict=True))
    elif dataclasses.is_dataclass(value):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif hasattr(kind, "model_fields"):
        found = {name: getattr(value, name) for name in kind.model_fields}
    else:
        raise NotPackable(f"a {kind.__name__}")
    return {str(name): packed(each, module, depth) for name, each in found.items()}


def _object(kind: Any, fields: dict[str, Any]) -> Any:
    if hasattr(kind, "model_construct"):
        return kind.model_construct(**fields)
    if hasattr(kind, "_fields"):
        return kind(**fields)
    made = object.__new__(kind)
    for name, each in fields.items():
        object.__setattr__(made, name, each)
    return made


def _own(module: types.ModuleType, name: str) -> Any:
    found = vars(module).get(name)
    if not isinstance(found, type):
        raise NotPackable(f"a {name}")
    return found


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

"""Packs values as JSON that keeps their types, so that a skill and its tests need not share a process.

This module runs in the box. Lists, strings and numbers stay as they are. Any other value becomes an object with one
key, which names its kind. Instances of classes are packed only if the class is defined in the skill's own module. Only
their fields are packed, not the methods of the class (such as `__eq__`). `acquired_skills.in_box.unpacking` restores
the values.

An instance is packed as ``{"object": [class, fields]}``. An instance that occurs more than once gets a number. Its
first occurrence is packed in the same way, with the number as a third item. Each later occurrence becomes
``{"again": [number, known]}``, so shared references and cycles are preserved. `known` says how many instances there are
among the arguments of the call. Those instances have the lowest numbers.
"""

import collections
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import types
import uuid
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from acquired_skills.in_box.array_packing import is_array_value, packed_array
from acquired_skills.in_box.own_classes import fields

MAX_DEPTH = 60
MAX_NODES = 100_000  # maximum number of parts of one value
_PLAIN_BITS = 63
_CLIENT = "knackbox"  # the module through which programs call tools
_UNNUMBERED = 2  # length of a packed instance without a number
BY_TEXT: Mapping[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "zone": (zoneinfo.ZoneInfo, str, zoneinfo.ZoneInfo),
    "decimal": (decimal.Decimal, decimal.Decimal.__str__, decimal.Decimal),
    "fraction": (fractions.Fraction, str, fractions.Fraction),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "path": (pathlib.PurePath, str, pathlib.Path),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "bytearray": (bytearray, bytearray.hex, bytearray.fromhex),
}
FACTORIES: Mapping[str, Any] = {  # default factories of a defaultdict
    kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple, types.NoneType)
}


class NotPackable(Exception):
    """A value that cannot be packed."""


def packed(value: Any, module: str) -> Any:
    """Return a value as JSON. Instances are packed only if `module` defines their class.

    Raises:
        NotPackable: The value cannot be packed.
    """
    return Packer(module).pack(value)


class Packer:
    """Packs several values that may share instances.

    Attributes:
        objects: All instances: first the known ones, then the others in the order of their first occurrence.
    """

    def __init__(self, module: str, known: Sequence[Any] = (), *, unchanged: bool = False) -> None:
        """Create a packer for values of one module.

        Args:
            module: The module that defines the classes of the instances to pack.
            known: Instances that are already numbered, from 0.
            unchanged: Whether to pack the known instances only as references.
        """
        self.objects = list(known)
        self._module = module
        self._known = len(known)
        self._numbers = {id(each): number for number, each in enumerate(known)}
        self._wires: dict[int, list[Any] | None] = {id(each): None for each in known} if unchanged else {}
        self._next = self._known
        self._nodes = 0

    def pack(self, value: Any, depth: int = 0) -> Any:  # noqa: PLR0911 -- one return per kind
        """Return a value as JSON.

        Raises:
            NotPackable: The value cannot be packed.
        """
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise NotPackable("a value that is nested too deeply")
        if self._nodes > MAX_NODES:
            raise NotPackable("a value with too many parts")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, enum.Enum) and type(value).__module__ == self._module:
            return _member(value)
        if isinstance(value, int):
            number = int.__pos__(value)  # `int(value)` would call a method of the subclass
            return number if number.bit_length() <= _PLAIN_BITS else {"int": hex(number)}
        if isinstance(value, float):
            real = float.__pos__(value)
            return {"float": repr(real)} if real != real or real in (_INF, -_INF) else real  # noqa: PLR0124
        if isinstance(value, str):
            text = str.__str__(value)
            return text if _is_utf8(text) else {"text": text.encode("utf-8", "surrogatepass").hex()}
        if type(value).__module__ == self._module:
            return self._instance(value, depth + 1)
        if is_array_value(value):
            return self._array(value, depth + 1)
        return self._structured(value, depth + 1)

    def _array(self, value: Any, depth: int) -> Any:
        wire = packed_array(value, lambda each: self.pack(each, depth))
        if wire is None:
            raise NotPackable(f"a {type(value).__name__} that is too large or of an unusual type")
        return wire

    def _instance(self, value: Any, depth: int) -> Any:
        place = id(value)
        if place in self._wires:
            return self._again(place)
        found = fields(value)
        if found is None:
            raise NotPackable(f"a {type(value).__name__}")
        wire: list[Any] = [type(value).__name__]
        if not isinstance(value, tuple):
            self._wires[place] = wire
            if place not in self._numbers:
                self.objects.append(value)  # keeping it also prevents another object from getting the same id
        wire.append({name: self.pack(each, depth) for name, each in found.items()})
        if place in self._numbers:  # a known instance, or one that refers to itself
            wire.append(self._numbers[place])
        return {"object": wire}

    def _again(self, place: int) -> dict[str, Any]:
        wire = self._wires[place]
        if place not in self._numbers:
            self._numbers[place], self._next = self._next, self._next + 1
            if wire is not None and len(wire) == _UNNUMBERED:
                wire.append(self._numbers[place])
        return {"again": [self._numbers[place], self._known]}

    def _items(self, values: Any, depth: int) -> list[Any]:
        return [self.pack(each, depth) for each in values]

    def _pairs(self, value: Any, depth: int) -> list[Any]:
        return [[self.pack(key, depth), self.pack(each, depth)] for key, each in list(dict.items(value))]

    def _structured(self, value: Any, depth: int) -> Any:  # noqa: C901, PLR0911, PLR0912 -- one branch per kind
        match value:
            case list():
                return self._items(list.__iter__(value), depth)
            case tuple():
                return {"tuple": self._items(tuple.__iter__(value), depth)}
            case collections.Counter():
                return {"counter": self._pairs(value, depth)}
            case collections.OrderedDict():
                return {"ordered": self._pairs(value, depth)}
            case collections.defaultdict():
                factory = getattr(value.default_factory, "__name__", "NoneType")
                if FACTORIES.get(factory) is not (value.default_factory or types.NoneType):
                    raise NotPackable("a defaultdict with a custom factory")
                return {"defaultdict": [factory, self._pairs(value, depth)]}
            case dict():
                return {"dict": self._pairs(value, depth)}
            case collections.deque():
                return {"deque": [self._items(value, depth), value.maxlen]}
            case set() | frozenset():
                kind = "set" if isinstance(value, set) else "frozenset"
                items = set.__iter__(value) if isinstance(value, set) else frozenset.__iter__(value)
                return {kind: sorted(self._items(items, depth), key=repr)}
            case complex():
                number = complex.__pos__(value)
                return {"complex": [self.pack(number.real), self.pack(number.imag)]}
            case dt.timedelta():
                return {"timedelta": [value.days, value.seconds, value.microseconds]}
            case range():
                return {"range": [value.start, value.stop, value.step]}
        for kind, (known, written, _) in BY_TEXT.items():
            if isinstance(value, known):
                return {kind: written(value)}
        raise NotPackable(f"a {type(value).__name__}")


def packed_exception(problem: BaseException, module: str) -> dict[str, Any]:
    """Return an exception's types (most specific first), its arguments and its text, as packed data."""
    kinds = [f"{kind.__module__}:{kind.__qualname__}" for kind in type(problem).__mro__[:-1]]
    found: dict[str, Any] = {"types": kinds[:20], "args": [], "text": str(problem)[:2_000]}
    for each in problem.args[:20]:
        try:
            found["args"].append(packed(each, module))
        except NotPackable:
            found["args"].append(str(each)[:2_000])
    if type(problem).__module__ == _CLIENT:  # the failure of a tool, whose reason and class are attributes
        found["fields"] = packed({str(name): each for name, each in vars(problem).items()}, module)
    return found


_INF = float("inf")


def _member(value: enum.Enum) -> dict[str, Any]:
    kind = type(value)
    if isinstance(value, enum.Flag) and value.name not in kind.__members__:
        return {"flags": [kind.__name__, value.value]}  # a combination of flags
    member = value.value  # what an agent sends and receives
    plain = type(member) in (str, bool) or (type(member) is int and member.bit_length() <= _PLAIN_BITS)
    return {"enum": [kind.__name__, value.name, *([member] if plain else [])]}


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

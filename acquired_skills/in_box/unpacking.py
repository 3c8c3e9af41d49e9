"""Restores, in the box, values that were packed by `acquired_skills.in_box.packing`."""

import builtins
import collections
import datetime as dt
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from acquired_skills.in_box.array_packing import unpacked_array
from acquired_skills.in_box.own_classes import blank, fill
from acquired_skills.in_box.packing import BY_TEXT, FACTORIES, NotPackable

_NO_NUMBER = -1


def unpacked(wire: Any, module: types.ModuleType) -> Any:
    """Restore a value, using the classes that `module` defines.

    Raises:
        NotPackable: The value cannot be restored, for instance because a class is missing.
    """
    return Unpacker(module).unpack(wire)


class Unpacker:
    """Restores values that were packed by one `Packer`.

    Attributes:
        objects: All instances: first the known ones, then the others in the order of their first occurrence.
    """

    def __init__(self, module: types.ModuleType, known: Sequence[Any] = ()) -> None:
        """Create an unpacker for values of one module.

        Args:
            module: The module that defines the classes of the instances.
            known: Instances that are already numbered, from 0. If the packed values contain new fields of these
                instances, the instances are changed in place.
        """
        self.objects = list(known)
        self._module = module
        self._numbered = dict(enumerate(known))

    def unpack(self, wire: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 -- one return per kind
        """Restore a value.

        Raises:
            NotPackable: The value cannot be restored.
        """
        if isinstance(wire, list):
            return [self.unpack(each) for each in wire]
        if not isinstance(wire, dict):
            return wire
        ((kind, inner),) = wire.items()
        if kind in BY_TEXT:
            return BY_TEXT[kind][2](inner)
        make = _MADE.get(kind)
        if make is not None:
            return make(self.unpack(inner))
        match kind:
            case "dict":
                return dict(self._pairs(inner))
            case "counter":
                return collections.Counter(dict(self._pairs(inner)))
            case "ordered":
                return collections.OrderedDict(self._pairs(inner))
            case "defaultdict":
                factory = FACTORIES[inner[0]]
                return collections.defaultdict(None if factory is types.NoneType else factory, self._pairs(inner[1]))
            case "enum":
                kind_of = _own(self._module, inner[0])
                return kind_of[inner[1]] if inner[1] in kind_of.__members__ else kind_of(inner[1])
            case "flags":
                return _own(self._module, inner[0])(inner[1])
            case "object":
                return self._instance(*inner)
            case "again" if inner[0] in self._numbered:
                return self._numbered[inner[0]]
        try:
            made = unpacked_array(kind, inner, self.unpack)
        except (ImportError, TypeError, ValueError, OverflowError):
            made = None
        if made is None:
            raise NotPackable(f"a {kind}")
        return made

    def _pairs(self, pairs: Any) -> list[tuple[Any, Any]]:
        return [(self.unpack(key), self.unpack(each)) for key, each in pairs]

    def _instance(self, name: str, wires: dict[str, Any], number: int = _NO_NUMBER) -> Any:
        kind = _own(self._module, name)
        if hasattr(kind, "_fields"):
            return kind(**{field: self.unpack(each) for field, each in wires.items()})
        made = self._numbered.get(number)
        if made is None:
            made = blank(kind)
            self.objects.append(made)
        if number != _NO_NUMBER:
            self._numbered[number] = made  # added before its fields are restored, because they may refer to it
        fill(made, {field: self.unpack(each) for field, each in wires.items()})
        return made


def unpacked_exception(wire: dict[str, Any], module: types.ModuleType) -> BaseException:
    """Restore an exception, as an instance of the most specific of its types that is known in this process."""
    for kind in wire["types"]:
        home, _, name = kind.partition(":")
        place = builtins if home == "builtins" else module if home == module.__name__ else sys.modules.get(home)
        found = vars(place).get(name) if place is not None else None
        if isinstance(found, type) and issubclass(found, BaseException):
            arguments = tuple(unpacked(each, module) for each in wire["args"])
            problem = found.__new__(found, *arguments)
            problem.args = arguments
            if "fields" in wire:
                problem.__dict__.update(unpacked(wire["fields"], module))
            if home == module.__name__:
                problem.__dict__["_text"] = wire["text"]
            return problem
    return Exception(wire["text"])


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
    "deque": lambda parts: collections.deque(*parts),
}


def _own(module: types.ModuleType, name: str) -> Any:
    found = vars(module).get(name)
    if not isinstance(found, type):
        raise NotPackable(f"a {name}")
    return found

"""Infers missing type hints of parameters from the arguments of the tests' calls (SKILL-3). Runs in the box.

A hint is kept as source text, such as ``list[int]``, so that the engine can store it and show it to the author.
"""

import datetime as dt
import decimal
import inspect
import pathlib
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter

from acquired_skills.in_box.array_packing import LIBRARIES, is_array_value
from acquired_skills.in_box.json_values import with_plain_classes

ANY = "Any"
MOST_ITEMS = 100  # number of items of one container that are examined
MOST_DEPTH = 4  # maximum nesting depth of containers
MOST_CHARS = 200  # maximum number of characters of a hint
MOST_KINDS = 3  # maximum number of types of one parameter; if there are more, any value is accepted
_ATOMS = (bool, int, float, str, bytes)
_NAMED: Mapping[str, type] = {
    "datetime.datetime": dt.datetime,
    "datetime.date": dt.date,
    "datetime.time": dt.time,
    "datetime.timedelta": dt.timedelta,
    "decimal.Decimal": decimal.Decimal,
    "uuid.UUID": uuid.UUID,
    "pathlib.Path": pathlib.Path,
}
_NAMES = {"Any": Any, "datetime": dt, "decimal": decimal, "pathlib": pathlib, "uuid": uuid}
_ARRAYS: Mapping[type, str] = {list: "list[{}]", set: "set[{}]", frozenset: "frozenset[{}]", tuple: "tuple[{}, ...]"}
_KEYS = ("str", "int", "float", "bool")  # types of keys that a key of a JSON object can be converted to


class SeenTypes:
    """The types of the values seen at one place: an argument, or the items of a container in it.

    Attributes:
        names: Hints of the values that are not containers.
        items: The types of the items of containers. The key is the form of the container's hint, such as ``list[{}]``.
            For a dict, there is one object for the keys and one for the values.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.items: dict[str, list[SeenTypes]] = {}

    def add(self, value: Any, module: str, depth: int = 0) -> None:
        """Add the type of a value. `module` is the module that defines the classes in the hint."""
        kind = type(value)
        if value is None or kind in _ATOMS:
            self.names.add("None" if value is None else kind.__name__)
        elif kind in _ARRAYS:
            self._add_items(_ARRAYS[kind], [list(value)[:MOST_ITEMS]], module, depth)
        elif kind is dict:
            pairs = list(value.items())[:MOST_ITEMS]
            self._add_items("dict[{}, {}]", [[key for key, _ in pairs], [each for _, each in pairs]], module, depth)
        elif isinstance(value, pathlib.Path):
            self.names.add("pathlib.Path")
        elif kind.__module__ == module and vars(sys.modules[module]).get(kind.__name__) is kind:
            self.names.add(kind.__name__)
        elif is_array_value(value) and vars(sys.modules[kind.__module__.partition(".")[0]]).get(kind.__name__) is kind:
            self.names.add(f"{kind.__module__.partition('.')[0]}.{kind.__name__}")
        else:
            self.names.add(next((name for name, known in _NAMED.items() if kind is known), ANY))

    def _add_items(self, form: str, parts: list[list[Any]], module: str, depth: int) -> None:
        places = self.items.setdefault(form, [SeenTypes() for _ in parts])
        for place, values in zip(places, parts, strict=True):
            for each in values:
                if depth < MOST_DEPTH:
                    place.add(each, module, depth + 1)
                else:
                    place.any()

    def any(self) -> None:
        """Record that this argument or container accepts any value."""
        self.names.add(ANY)

    def merge(self, other: "SeenTypes") -> None:
        """Add the types that another object has collected."""
        self.names |= other.names
        for form, places in other.items.items():
            for mine, its in zip(self.items.setdefault(form, [SeenTypes() for _ in places]), places, strict=True):
                mine.merge(its)

    def hint(self, most: int = MOST_KINDS) -> str:
        """Return the hint that covers all types seen, or `Any` if there are more than `most` of them."""
        found = set(self.names)
        for form, places in self.items.items():
            first, *rest = (place.hint(1) for place in places)
            found.add(form.format(first if not rest or first in _KEYS else ANY, *rest))
        if "float" in found:
            found.discard("int")
        if ANY in found or not found - {"None"} or len(found - {"None"}) > most:
            return ANY
        text = " | ".join(sorted(found, key=lambda hint: (hint == "None", hint)))
        return text if len(text) <= MOST_CHARS else ANY


class HintInference:
    """Infers hints for the parameters of a function that have none."""

    def __init__(self, function: Callable[..., Any], module: str) -> None:
        self._module = module
        self._signature = inspect.signature(function)
        self._seen = {name: SeenTypes() for name in untyped(function)}
        for name, seen in self._seen.items():
            default = self._signature.parameters[name].default
            if default is not inspect.Parameter.empty:
                seen.add(default, module)

    def observe(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Callable[[], None]:
        """Read the types of a call's arguments, and return a function that adds them to the types seen.

        Call that function only if the call returns, because a test that expects an exception may pass values of a wrong
        type. The types are read before the call, because the call may change its arguments.
        """
        seen = {name: SeenTypes() for name in self._seen}
        try:
            if seen:
                for name, value in self._signature.bind(*arguments, **named).arguments.items():
                    if name in seen:
                        seen[name].add(value, self._module)
        except Exception:  # noqa: BLE001 -- the call may be wrong, and an argument's own code may raise anything
            seen = {}

        def take() -> None:
            for name, each in seen.items():
                self._seen[name].merge(each)

        return take

    def hints(self) -> dict[str, str]:
        """Return a hint for each parameter without one. The hint is `Any` where nothing can be inferred."""
        return {name: _usable(seen.hint(), self._module) for name, seen in self._seen.items()}


def untyped(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters without a type hint."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.annotation is inspect.Parameter.empty]


def evaluated(hint: str, module: str) -> Any:
    """Return the type that an inferred hint denotes. `module` is the module that defines the classes in the hint."""
    libraries = {name: sys.modules[name] for name in LIBRARIES if name in sys.modules}
    return eval(hint, {**vars(sys.modules[module]), **_NAMES, **libraries})  # noqa: S307 -- in the box of the code itself


def _usable(hint: str, module: str) -> str:
    """Return the hint if a JSON value can be converted to it, otherwise `Any`."""
    try:
        TypeAdapter(with_plain_classes(evaluated(hint, module), module)).json_schema()
    except Exception:  # noqa: BLE001 -- the code's own class decides
        return ANY
    return hint

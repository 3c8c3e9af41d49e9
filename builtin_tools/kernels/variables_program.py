"""Lists the variables of a kernel. Runs in the kernel: `variables.py` reads this file as text; no module imports it.

It calls no method of a user's class: names and types come from the interpreter's own descriptors, lengths only from
built-in types, shapes from numpy's C type and from pandas. After an interrupt the remaining variables are listed
without sizes.
"""

import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

MOST = 200
LONGEST = 100
_HIDDEN = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
_SIZED = (list, tuple, dict, set, frozenset, str, bytes, bytearray, range)
_PLAIN = (int, float, complex, bool)
_CODE = (ModuleType, BuiltinFunctionType, MethodType)  # usually imported
_TABLES = ("DataFrame", "Series")
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE in CPython's object.h: a class created by Python code

_name_of = type.__dict__["__name__"].__get__
_module_of = type.__dict__["__module__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
_dict_of: Any = vars(ModuleType)["__dict__"].__get__


class JsonDisplay:
    """Displays a value as JSON."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return ""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {"application/json": self.value}


def answer(namespace: dict[str, Any]) -> JsonDisplay:
    """Return the number of variables, and the first ones by name, with the type, length or shape, and size of each."""
    found = [
        (name[:LONGEST], value)
        for name, value in list(namespace.items())
        if type(name) is str and not name.startswith("_") and name not in _HIDDEN and _made_here(value, namespace)
    ]
    found.sort(key=lambda item: item[0])
    measuring, rows = True, []
    for name, value in found[:MOST]:
        size: tuple[Any, Any] = (None, None)
        try:
            size = _size(value) if measuring else size
        except BaseException as error:
            measuring = type(error) is not KeyboardInterrupt
        rows.append([name, _kind(type(value)), *size])
    return JsonDisplay({"total": len(found), "rows": rows})


def _made_here(value: Any, namespace: dict[str, Any]) -> bool:
    """Return whether the value was created in the kernel, not imported."""
    cls = type(value)
    if cls is FunctionType:
        return value.__globals__ is namespace
    if cls is type:
        module: Any = _module_of(value)
        return type(module) is str and module == "__main__"
    return not any(cls is each for each in _CODE)


def _kind(cls: type) -> str:
    module: Any = _module_of(cls)
    name: str = _name_of(cls)[:LONGEST]
    if type(module) is not str or module in {"builtins", "__main__"}:
        return name
    return module[:LONGEST].partition(".")[0] + "." + name


def _size(value: Any) -> tuple[Any, Any]:
    """Return the length or shape of a value, and its size in bytes; None for what is unknown."""
    cls = type(value)
    if any(cls is each for each in _SIZED):
        return len(value), sys.getsizeof(value)
    if any(cls is each for each in _PLAIN):
        return None, None
    if not _flags_of(cls) & _HEAP_TYPE and cls is _attribute("numpy", "ndarray"):
        return [list(value.shape), value.dtype.name], value.nbytes
    if any(cls is _attribute("pandas", each) for each in _TABLES):
        return [list(value.shape), ""], None
    return None, None


def _attribute(module: str, name: str) -> Any:
    found = sys.modules.get(module)
    return _dict_of(found).get(name, answer) if type(found) is ModuleType else answer

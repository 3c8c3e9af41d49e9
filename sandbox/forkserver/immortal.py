"""Exempts a template's objects from reference counting, so that forks share their memory. Standard library only.

CPython counts references inside of objects, so a worker that only uses a function copies the page that it is on. Since
3.12, CPython leaves the counts of some objects alone (PEP 683, "Immortal Objects"): those with a count that is never
reached otherwise, which `None` has as well.
"""

import ctypes
import gc
import sys
from types import CodeType
from typing import Any

_FIRST_VERSION = (3, 12)


def make_all_immortal() -> int:
    """Make all objects that exist now immortal, which has no effect on what programs see except `sys.getrefcount`.

    Objects of a template live as long as it does and each of its workers. Call this before `gc.freeze`.

    Returns:
        The number of objects; 0 on versions of CPython without immortal objects, and in other interpreters.
    """
    if sys.implementation.name != "cpython" or sys.version_info < _FIRST_VERSION or _free_threaded():
        return 0
    count = ctypes.c_uint32.from_address(id(None)).value  # the lower half of the count is what marks an object
    left: list[Any] = gc.get_objects()
    found: set[int] = set()
    while left:
        each = left.pop()
        if id(each) in found:
            continue
        found.add(id(each))
        left.extend(gc.get_referents(each))
        if isinstance(each, CodeType):  # does not tell the garbage collector what it refers to
            left += (each.co_consts, each.co_names, each.co_name, each.co_qualname, each.co_filename)
    for address in found:
        ctypes.c_uint32.from_address(address).value = count
    return len(found)


def _free_threaded() -> bool:
    return not getattr(sys, "_is_gil_enabled", lambda: True)()

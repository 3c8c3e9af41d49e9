"""Replaces the wall clock that code in a box reads. Standard library only.

The functions of `time` and the methods of `datetime` and `date` that read the wall clock are replaced. Clocks of
elapsed time (`time.monotonic`, `time.perf_counter`) and `time.sleep` stay real, because time limits and event loops
need them.

`datetime` and `date` stay the same types, so that annotations, comparisons and subclasses work as usual. Their methods
are replaced in the dictionaries of the types, which are accessible only through `gc`.
"""

import ctypes
import datetime as dt
import gc
import time
from typing import Any


def replace_wall_clock(now: "Any") -> None:
    """Let all code in this process read the time from `now`. Call it before code that imports the clock is loaded.

    Args:
        now: A function that returns the time in seconds since the epoch.
    """
    _replace_functions(now)
    _replace_methods(now)


def _replace_functions(now: "Any") -> None:
    localtime, gmtime, ctime, asctime, strftime = time.localtime, time.gmtime, time.ctime, time.asctime, time.strftime
    replaced: dict[str, Any] = {
        "time": now,
        "time_ns": lambda: round(now() * 1_000_000) * 1_000,
        "localtime": lambda seconds=None: localtime(now() if seconds is None else seconds),
        "gmtime": lambda seconds=None: gmtime(now() if seconds is None else seconds),
        "ctime": lambda seconds=None: ctime(now() if seconds is None else seconds),
        "asctime": lambda moment=None: asctime(localtime(now()) if moment is None else moment),
        "strftime": lambda form, moment=None: strftime(form, localtime(now()) if moment is None else moment),
    }
    vars(time).update(replaced)


def _replace_methods(now: "Any") -> None:
    def datetime_now(cls: Any, tz: "dt.tzinfo | None" = None) -> Any:
        return cls.fromtimestamp(now(), tz)

    def utcnow(cls: Any) -> Any:
        return cls.fromtimestamp(now(), dt.timezone.utc).replace(tzinfo=None)  # noqa: UP017  (any Python of the box)

    def today(cls: Any) -> Any:
        return cls.fromtimestamp(now())

    for kind, methods in ((dt.datetime, {"now": datetime_now, "utcnow": utcnow}), (dt.date, {"today": today})):
        (members,) = gc.get_referents(vars(kind))
        members.update({name: classmethod(method) for name, method in methods.items()})
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))  # clears the cache of looked-up methods

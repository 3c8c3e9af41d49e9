"""Makes a program in a box repeatable: its randomness comes from a seed, and what it reads from its clock is noted.

`begin` is called before the program. When the program runs again, it reads the noted times first. Only the wall clock
is replaced: `time.monotonic` and `time.sleep` stay real. Standard library only.
"""

import ctypes
import datetime as dt
import gc
import os
import random
import sys
import time
from collections import deque
from typing import Any

_MOST = 10_000  # readings kept between two requests

unsent: list[float] = []
"""What the program has read since its last request."""
_earlier: deque[float] = deque()
_real = time.time


def begin(seed: str, readings: "list[float]") -> None:
    """Replace the sources of randomness and time.

    Args:
        seed: The seed of all randomness.
        readings: What the program read from its clock before.
    """
    _earlier.extend(readings)
    source = random.Random(seed)  # noqa: S311  (the seed is the only secret, and is as random as it needs to be)

    def urandom(size: int, /) -> bytes:
        return source.randbytes(size)

    os.urandom = random._urandom = urandom  # type: ignore[attr-defined]  # noqa: SLF001
    random.seed(seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(source.getrandbits(32))
    _replace_functions()
    _replace_methods()


def now() -> float:
    """Return the time in seconds since the epoch, and note it."""
    reading = _earlier.popleft() if _earlier else _real()
    if len(unsent) < _MOST:
        unsent.append(reading)
    return reading


def _replace_functions() -> None:
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


def _replace_methods() -> None:
    """Replace methods in the dictionaries of the types, so that `datetime` and `date` stay the same types."""

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

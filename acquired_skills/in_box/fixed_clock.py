"""Fixes the time that code in the box reads, so that tests can state results that depend on the time (GATE-6).

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


class FixedClock:
    """The time that all code in this process reads.

    Attributes:
        text: The fixed time in UTC, in ISO 8601; "" while the real time is used.
    """

    def __init__(self) -> None:
        """Create a clock that shows the real time. Nothing is replaced before `install`."""
        self.text = ""
        self._seconds = 0.0
        self._real = time.time

    def install(self) -> None:
        """Replace the functions that read the clock. Call it before code that imports these functions is loaded."""
        self._replace_functions()
        self._replace_methods()

    def fix(self, moment: str | dt.date) -> None:
        """Stop the clock at a time, such as "2026-03-01T09:30". A time without an offset is local time.

        Raises:
            ValueError: The text is not in ISO 8601.
        """
        text = moment if isinstance(moment, str) else moment.isoformat()
        found = dt.datetime.fromisoformat(text).astimezone(dt.UTC)
        self.text, self._seconds = found.isoformat(), found.timestamp()

    def release(self) -> None:
        """Use the real time again."""
        self.text = ""

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        return self._seconds if self.text else self._real()

    def _replace_functions(self) -> None:
        localtime, gmtime, ctime, asctime, strftime = (
            time.localtime,
            time.gmtime,
            time.ctime,
            time.asctime,
            time.strftime,
        )
        replaced: dict[str, Any] = {
            "time": self.now,
            "time_ns": lambda: round(self.now() * 1_000_000) * 1_000,
            "localtime": lambda seconds=None: localtime(self.now() if seconds is None else seconds),
            "gmtime": lambda seconds=None: gmtime(self.now() if seconds is None else seconds),
            "ctime": lambda seconds=None: ctime(self.now() if seconds is None else seconds),
            "asctime": lambda moment=None: asctime(localtime(self.now()) if moment is None else moment),
            "strftime": lambda form, moment=None: strftime(form, localtime(self.now()) if moment is None else moment),
        }
        vars(time).update(replaced)

    def _replace_methods(self) -> None:
        def now(cls: Any, tz: dt.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(self.now(), tz)

        def utcnow(cls: Any) -> Any:
            return cls.fromtimestamp(self.now(), dt.UTC).replace(tzinfo=None)

        def today(cls: Any) -> Any:
            return cls.fromtimestamp(self.now())

        for kind, methods in ((dt.datetime, (now, utcnow)), (dt.date, (today,))):
            (members,) = gc.get_referents(vars(kind))
            members.update({method.__name__: classmethod(method) for method in methods})
            ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))  # clears the cache of looked-up methods

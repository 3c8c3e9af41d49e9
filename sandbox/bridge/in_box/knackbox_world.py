"""Makes a program in a box repeatable: its randomness comes from a seed, and what it reads from its clock is noted.

`begin` is called before the program. When the program runs again, it reads the noted times first. Only the wall clock
is replaced: `time.monotonic` and `time.sleep` stay real. Standard library only.
"""

import os
import random
import sys
import time
from collections import deque

import knackbox_clock  # type: ignore[import-not-found]  # beside this module in a box

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
    knackbox_clock.replace_wall_clock(now)


def now() -> float:
    """Return the time in seconds since the epoch, and note it."""
    reading = _earlier.popleft() if _earlier else _real()
    if len(unsent) < _MOST:
        unsent.append(reading)
    return reading

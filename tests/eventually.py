"""Waits for a condition, with a deadline. Tests poll only with these functions."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

DEADLINE_S = 60.0  # far longer than any condition takes on a busy machine; only a failing test waits this long
PAUSE_S = 0.01

Value = TypeVar("Value")


async def eventually(
    condition: Callable[[], Value | Awaitable[Value]], *, deadline_s: float = DEADLINE_S, pause_s: float = PAUSE_S
) -> Value:
    """Call a condition, sync or async, until it returns a true value, and return that value.

    Raises:
        AssertionError: It was still false when the deadline passed. A condition that hangs is cancelled then.
    """
    value: object = None
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                found = condition()
                value = await found if inspect.isawaitable(found) else found
                if value:
                    return value  # type: ignore[return-value]
                await asyncio.sleep(pause_s)
    except TimeoutError:
        raise AssertionError(f"the condition still returned {value!r} after {deadline_s} s") from None


def eventually_sync(
    condition: Callable[[], Value], *, deadline_s: float = DEADLINE_S, pause_s: float = PAUSE_S
) -> Value:
    """Call a condition until it returns a true value, and return that value. For tests without an event loop.

    Raises:
        AssertionError: It was still false when the deadline passed.
    """
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < end, f"the condition still returned {value!r} after {deadline_s} s"
        time.sleep(pause_s)
    return value

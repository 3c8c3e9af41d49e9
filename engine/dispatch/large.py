"""Large values: noticed at little cost, so that they are converted in a thread and not in the event loop."""

from collections.abc import Mapping
from typing import Any

LARGE_NODES = 2_000
LARGE_CHARACTERS = 100_000
MAX_NODES = 200_000  # of a tool's result; more are not passed on
MAX_CHARACTERS = 32 << 20


def is_large(value: Any) -> bool:
    """Whether converting the value may take longer than a few milliseconds. Takes less than that itself."""
    return exceeds(value, LARGE_NODES, LARGE_CHARACTERS)


def exceeds(value: Any, nodes: int, characters: int) -> bool:
    """Whether plain data has more values or longer texts than this, all of them together. Stops at the limit.

    An object that is neither a container nor text counts as one value, whatever is in it.
    """
    if isinstance(value, str | bytes):
        return len(value) > characters
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return False
    stack: list[Any] = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, str | bytes):
            characters -= len(each)
        elif isinstance(each, Mapping):
            nodes -= len(each)
            if nodes >= 0:
                stack += each.keys()
                stack += each.values()
        elif isinstance(each, list | tuple | set | frozenset):
            nodes -= len(each)
            if nodes >= 0:
                stack += each
        if nodes < 0 or characters < 0:
            return True
    return False

"""`concurrent_map`: applies a coroutine function to several documents at the same time, each in a box of its own."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


async def concurrent_map(items: Iterable[_T], process: Callable[[_T], Awaitable[_R]], limit: int = 0) -> list[_R]:
    """Process each item, and return the results in the order of the items.

    If one raises an exception, the others are cancelled, and the exception is raised.

    Args:
        items: The items, such as the paths of documents.
        process: Called for each item.
        limit: The number of items that are processed at the same time; 0 for one more than there are processors,
            so that one document can be stored while others are read.
    """
    free = asyncio.Semaphore(limit or len(os.sched_getaffinity(0)) + 1)

    async def one(item: _T) -> _R:
        async with free:
            return await process(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]

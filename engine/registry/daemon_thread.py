"""`in_daemon_thread`: blocking work of an operator's code, in a thread that does not keep the process from ending.

Asyncio's own pool is waited for when the process ends, so one import or call that hangs would hang that, too. Dispatch
has bounded worker threads; these here are for what comes before it: the import of an adapter, and a first call.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """The value of `work()`, with a copy of the present context variables. Raises what it raises.

    When the waiter is cancelled the thread goes on, and what comes of it is dropped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    inside = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def job() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = inside.run(work)
        except StopIteration as stop:  # a future cannot carry it
            error = RuntimeError(f"StopIteration: {stop.value}")
        except BaseException as raised:  # noqa: BLE001 -- handed to the waiter, SystemExit included
            error = raised
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the event loop is closed: nobody waits any more
            return

    threading.Thread(target=job, name="knackbox-adapter", daemon=True).start()
    return await future

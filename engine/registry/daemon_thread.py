"""`in_daemon_thread`: runs an operator's blocking code in a thread that does not keep the process alive.

Asyncio joins its default pool at exit, so one import or call that hangs would make the process hang, too. Dispatch has
its own bounded worker threads. This module is for blocking code that runs outside them: the import of an adapter, and
the call that triggers it.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Run `work()` in a daemon thread and return its value. Its exceptions propagate.

    The thread has a copy of the current context variables. If the waiting task is cancelled, the thread continues and
    its result is discarded.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    inside = contextvars.copy_context()

    def finish(value: Any, error: BaseException | None) -> None:
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
        except StopIteration as stop:  # a future cannot raise StopIteration
            error = RuntimeError(f"StopIteration: {stop.value}")
        except BaseException as raised:  # noqa: BLE001 -- passed to the waiting task, including SystemExit
            error = raised
        try:
            loop.call_soon_threadsafe(finish, value, error)
        except RuntimeError:  # the event loop is closed
            return

    threading.Thread(target=job, name="knackbox-adapter", daemon=True).start()
    return await future

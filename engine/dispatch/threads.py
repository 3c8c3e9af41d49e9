"""`WorkerThreads`: runs blocking functions. Stuck threads are abandoned and replaced, so they never starve others."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from engine.contract.failure import FailureClass, ToolFailure

T = TypeVar("T")

# The most concurrent blocking calls, and the most calls past their deadline that still hold a thread. A thread costs
# about 100 KB. The limits are far above what one agent needs and far below what a machine supports.
DEFAULT_LIMIT = 64
DEFAULT_STUCK_LIMIT = 256

_Inbox: TypeAlias = "SimpleQueue[Callable[[], None] | None]"


def ignore_start() -> None:
    """Do nothing. The default of `entered`, for callers that need not know when the work begins."""


class WorkerThreads:
    """Runs functions in its own daemon threads, never in asyncio's default pool.

    If the call passes its deadline or is cancelled, its thread cannot be stopped. The thread is then counted as stuck,
    and its slot is freed at once. When its function returns, the thread becomes available again. Daemon threads do not
    keep the process alive. Use each instance in one event loop.
    """

    def __init__(self, name: str, *, limit: int = DEFAULT_LIMIT, stuck_limit: int = DEFAULT_STUCK_LIMIT) -> None:
        self._name = name
        self._places = asyncio.Semaphore(limit)
        self._stuck_limit = stuck_limit
        self._idle: list[_Inbox] = []
        self._stuck = 0
        self._made = 0
        self._closed = False

    @property
    def stuck(self) -> int:
        """The number of threads whose functions still run although nobody waits for them any longer."""
        return self._stuck

    async def run(self, work: Callable[[], T], *, entered: Callable[[], None] = ignore_start) -> T:
        """Run `work()` in a thread, with a copy of the current context variables, and return its value.

        The method waits for a free slot. Exceptions of `work` propagate.

        Args:
            work: The function to run.
            entered: Called in the thread just before `work`.

        Raises:
            ToolFailure: Too many threads are stuck (RETRYABLE, not started).
        """
        if self._stuck >= self._stuck_limit or self._closed:
            raise ToolFailure(
                f"{self._stuck} worker threads are stuck in blocking tools and no more are started; "
                "wait for them to return, or restart the engine.",
                failure_class=FailureClass.RETRYABLE,
                reason="busy",
                may_have_started=False,
            )
        await self._places.acquire()
        try:
            inbox = self._idle.pop() if self._idle else self._start()
        except RuntimeError:  # no more threads can be started
            self._places.release()
            raise
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        inside = contextvars.copy_context()

        def enter_and_work() -> T:
            entered()
            return inside.run(work)

        def job() -> None:
            value, error = _outcome_of(enter_and_work)
            loop.call_soon_threadsafe(self._finished, inbox, future, value, error)

        inbox.put(job)
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._stuck += 1
                self._places.release()
            raise

    def _finished(self, inbox: _Inbox, future: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
        """Deliver the outcome of a function and return its thread to the pool. This method runs in the event loop."""
        if self._closed:
            inbox.put(None)
        else:
            self._idle.append(inbox)
        if future.cancelled():
            self._stuck -= 1
            return
        self._places.release()
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def close(self) -> None:
        """End idle threads. Busy threads end when their work does."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)

    def _start(self) -> _Inbox:
        inbox: _Inbox = SimpleQueue()
        self._made += 1
        threading.Thread(target=_work, args=(inbox,), name=f"{self._name}-{self._made}", daemon=True).start()
        return inbox


def _outcome_of(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except StopIteration as error:  # a future cannot raise StopIteration
        return None, RuntimeError(f"StopIteration: {error.value}")
    except BaseException as error:  # noqa: BLE001 - passed to the caller, including SystemExit
        return None, error


def _work(inbox: _Inbox) -> None:
    while (job := inbox.get()) is not None:
        try:
            job()
        except RuntimeError:  # the event loop is closed
            return
        del job  # an idle thread must not keep objects of the last call alive

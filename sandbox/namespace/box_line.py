"""`BoxLine`: the engine's end of the line to process 1 of a direct box. Orders go out, and reports come back."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence

from sandbox.namespace import process_one
from sandbox.namespace.process_one import BoxReport, OrderKind


class BoxLine:
    """Gives process 1 orders and receives its reports, in one event loop.

    Most orders are answered by one report each, in their order.
    """

    def __init__(
        self, end: socket.socket, on_descriptors: Callable[[list[int]], None], on_lost: Callable[[], None]
    ) -> None:
        """Create the object. Nothing is received before `listen`.

        Args:
            end: The engine's end of the socket, which must not block. Its owner closes it after `close`.
            on_descriptors: Called with the descriptors that came with a report. It has to close them.
            on_lost: Called when process 1 has ended.
        """
        self._end = end
        self._on_descriptors = on_descriptors
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._asked: deque[asyncio.Future[BoxReport]] = deque()

    def listen(self) -> None:
        # The number, because asyncio formats an object that it does not know yet, which takes two system calls for a
        # socket.
        self._loop.add_reader(self._end.fileno(), self._on_readable)

    def ask(
        self, kind: OrderKind, number: int = 0, values: Sequence[int] = (), descriptors: Sequence[int] = ()
    ) -> "asyncio.Future[BoxReport]":
        """Give an order, and return a future of the report that answers it.

        The future raises EOFError if process 1 ends first, or if the order cannot be given.

        Args:
            kind: The order.
            number: Its number, whose meaning depends on the kind; so do the values (`process_one.order`).
            values: Its values.
            descriptors: Those that are sent with it.
        """
        future: asyncio.Future[BoxReport] = self._loop.create_future()
        self._asked.append(future)
        problem = self.tell(kind, number, values, descriptors)
        if problem is not None:
            self._refuse_all(problem.strerror or str(problem))
        return future

    def tell(
        self, kind: OrderKind, number: int = 0, values: Sequence[int] = (), descriptors: Sequence[int] = ()
    ) -> OSError | None:
        """Give an order. Return why that is impossible; None if it was given. The arguments are those of `ask`."""
        try:
            socket.send_fds(self._end, [process_one.order(kind, number, values)], descriptors)
        except OSError as problem:
            return problem
        return None

    async def answered(self) -> None:
        """Wait until all orders given so far have been answered, or process 1 has ended."""
        for each in list(self._asked):
            await asyncio.wait((each,))

    def close(self) -> None:
        """Stop receiving. Questions without an answer fail."""
        if self._end.fileno() >= 0:
            self._loop.remove_reader(self._end.fileno())
        self._refuse_all("process 1 has ended")

    def _on_readable(self) -> None:
        try:
            report, descriptors = process_one.receive(self._end)
        except BlockingIOError:
            return
        except (EOFError, OSError):
            self.close()
            self._on_lost()
            return
        if descriptors:
            self._on_descriptors(descriptors)
        if self._asked:
            future = self._asked.popleft()
            if not future.done():
                future.set_result(report)

    def _refuse_all(self, why: str) -> None:
        while self._asked:
            future = self._asked.popleft()
            if not future.done():
                future.set_exception(EOFError(why))
                future.exception()  # retrieved here, because nobody may be waiting for the answer

"""`OrderQueue`: sends orders, with descriptors, to a process that may be slow to read them."""

import asyncio
import contextlib
import errno
import json
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_SEND_AGAIN_S, _MOST_TRIES = 0.05, 20


@dataclass(slots=True)
class _Waiting:
    message: bytes
    descriptors: tuple[int, ...]
    on_refused: Callable[[], None] | None
    tries: int = 0


class OrderQueue:
    """Sends orders first in, first out, as soon as the socket accepts them. It belongs to one event loop."""

    def __init__(self, end: socket.socket, on_lost: Callable[[], None]) -> None:
        """Create an empty queue.

        Args:
            end: This process's end of the socket, which must not block. The caller closes it after `close`.
            on_lost: Called when an order cannot be sent because the other process has ended.
        """
        self._end = end
        self._on_lost = on_lost
        self._waiting: deque[_Waiting] = deque()
        self._retry: asyncio.TimerHandle | None = None

    def send(
        self, order: dict[str, Any], descriptors: Sequence[int] = (), on_refused: Callable[[], None] | None = None
    ) -> None:
        """Send an order, or queue it until the socket accepts it. The caller may close the descriptors immediately.

        Args:
            order: The order.
            descriptors: Those that are sent with it.
            on_refused: Called if the order is dropped, because the kernel still refuses the descriptors after a second.

        Raises:
            OSError: This process has no descriptor left for the copies that wait here.
        """
        with contextlib.ExitStack() as copied:
            copies = []
            for each in descriptors:
                copies.append(os.dup(each))
                copied.callback(os.close, copies[-1])
            copied.pop_all()
        self._waiting.append(_Waiting(json.dumps(order).encode(), tuple(copies), on_refused))
        if len(self._waiting) == 1:  # otherwise the first one is being retried already
            self._flush()

    def close(self) -> None:
        """Discard the orders that wait."""
        asyncio.get_running_loop().remove_writer(self._end.fileno())
        if self._retry is not None:
            self._retry.cancel()
        while self._waiting:
            self._forget_first()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            first = self._waiting[0]
            try:
                socket.send_fds(self._end, [first.message], first.descriptors)
            except BlockingIOError:
                loop.add_writer(self._end.fileno(), self._resume)
                return
            except OSError as problem:
                if problem.errno != errno.ETOOMANYREFS:
                    self._on_lost()
                    return
                first.tries += 1  # a job of the same user is sending many descriptors
                if first.tries < _MOST_TRIES:
                    self._retry = loop.call_later(_SEND_AGAIN_S, self._flush)
                    return
                if first.on_refused is not None:
                    loop.call_soon(first.on_refused)
            self._forget_first()

    def _resume(self) -> None:
        asyncio.get_running_loop().remove_writer(self._end.fileno())
        self._flush()

    def _forget_first(self) -> None:
        for descriptor in self._waiting.popleft().descriptors:
            os.close(descriptor)

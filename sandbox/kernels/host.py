"""A sandbox with a loop and a thread of its own, for callers whose loop is not always running.

Jupyter's blocking managers run a loop only while one of their calls lasts; a kernel's box is heard all the time.
"""

import asyncio
import functools
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from sandbox.namespace.backend import NamespaceSandbox

T = TypeVar("T")


class Host:
    """Starts when made, and ends with this process: its boxes and all that belongs to them end when nobody listens."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="knackbox-kernels", daemon=True)
        self.sandbox = NamespaceSandbox()
        self._thread.start()

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the host's loop; cancelling this cancels it there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def tell(self, callback: "functools.partial[None]") -> None:
        """Call it in the host's loop, soon."""
        self._loop.call_soon_threadsafe(callback)


@functools.cache
def shared() -> Host:
    """The one of this process. Jupyter makes provisioners itself and hands them nothing of ours, so they meet here."""
    return Host()

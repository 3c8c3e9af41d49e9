"""Sandboxes with a loop and a thread of their own, for callers whose loop is not always running.

Jupyter's blocking managers run a loop only while one of their calls lasts; a kernel's box is heard all the time.
"""

import asyncio
import functools
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from sandbox.docker.backend import DockerSandbox
from sandbox.docker.config import DockerConfig
from sandbox.kernels.boxed import Keeper
from sandbox.namespace.backend import NamespaceSandbox

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Walls:
    """What kernels are kept in. backend: namespace or docker.

    image, runtime, engine_url: of containers; "" is what their backend takes by itself.
    """

    backend: str = "namespace"
    image: str = ""
    runtime: str = ""
    engine_url: str = ""

    def build(self) -> Keeper:
        """A sandbox of this kind; nothing is started yet."""
        if self.backend == "docker":
            image = self.image or DockerConfig().image
            return DockerSandbox(DockerConfig(image=image, runtime=self.runtime, url=self.engine_url))
        return NamespaceSandbox()


class Host:
    """Starts when made, and ends with this process: its boxes and all that belongs to them end when nobody listens."""

    def __init__(self, walls: Walls) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="knackbox-kernels", daemon=True)
        self.sandbox = walls.build()
        self._thread.start()

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the host's loop; cancelling this cancels it there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def tell(self, callback: "functools.partial[None]") -> None:
        """Call it in the host's loop, soon."""
        self._loop.call_soon_threadsafe(callback)


@functools.cache
def shared(walls: Walls) -> Host:
    """The one of this process for such walls. Jupyter makes provisioners itself, so they meet here."""
    return Host(walls)

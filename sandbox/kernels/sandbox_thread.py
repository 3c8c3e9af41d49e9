"""Sandboxes with their own event loop and thread, for callers whose loop does not always run.

Jupyter's blocking managers run a loop only during each of their calls, but a kernel's box must be served all the time.
"""

import asyncio
import functools
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from sandbox.docker.backend import DockerSandbox
from sandbox.docker.config import DockerConfig
from sandbox.kernels.boxed import ServerSandbox
from sandbox.namespace.backend import NamespaceSandbox

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KernelBackendConfig:
    """The configuration of the backend in which kernels run.

    Attributes:
        backend: "namespace" or "docker".
        image: The image of containers; "" for the backend's default.
        runtime: The OCI runtime of containers; "" for the backend's default.
        engine_url: The address of the Docker Engine; "" for the backend's default.
    """

    backend: str = "namespace"
    image: str = ""
    runtime: str = ""
    engine_url: str = ""

    def build(self) -> ServerSandbox:
        """Create a sandbox of this backend. Nothing is started yet."""
        if self.backend == "docker":
            image = self.image or DockerConfig().image
            return DockerSandbox(DockerConfig(image=image, runtime=self.runtime, url=self.engine_url))
        return NamespaceSandbox()


class SandboxThread:
    """A sandbox with its own thread, which starts at once. The thread and the boxes end with this process."""

    def __init__(self, config: KernelBackendConfig) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="knackbox-kernels", daemon=True)
        self.sandbox = config.build()
        self._thread.start()

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread's loop. Cancelling the call cancels the coroutine."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def tell(self, callback: "functools.partial[None]") -> None:
        """Schedule the callback in the thread's loop."""
        self._loop.call_soon_threadsafe(callback)


@functools.cache
def shared(config: KernelBackendConfig) -> SandboxThread:
    """Return this process's sandbox for a config. Provisioners, which Jupyter creates, share it."""
    return SandboxThread(config)

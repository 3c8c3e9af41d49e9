"""`Kernels`: the service through which tools use the kernels of an engine.

ZeroMQ and Jupyter are not imported before the first stateful call (`execute` with ``stateful=true``).
"""

import asyncio
import importlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from acquired_skills.jobs.environment import imports_of, preload_for
from engine.app.settings import KernelSettings
from engine.dispatch.refusals import not_configured
from sandbox.contract import Mount, Sandbox
from sandbox.kernels.spec import KernelSpec

if TYPE_CHECKING:
    from builtin_tools.kernels.socket_server import KernelSocketServer
    from sandbox.kernels.pool import KernelPool

_log = logging.getLogger("knackbox.kernels")


class Kernels:
    """Provides the kernels of one engine to its tools. Must be used in the engine's event loop."""

    def __init__(self, sandbox: Sandbox, settings: KernelSettings, folder: Path) -> None:
        """Create the service. No kernel is started before the first stateful call.

        Args:
            folder: The folder for the socket to which `knackbox kernel` connects.
        """
        self._sandbox = sandbox
        self._settings = settings
        self._folder = folder
        self._opening = asyncio.Lock()
        self._server: KernelSocketServer | None = None
        self._closed = False
        self.opened: KernelPool | None = None
        """The pool of kernels; None before the first stateful call."""

    async def pool(self) -> "KernelPool":
        """Return the pool; the first call opens it.

        Raises:
            ToolFailure: FATAL. This engine has no kernels.
        """
        return self.opened or await self._open()

    def spec(self, workspace: Path, code: str) -> KernelSpec:
        """Return the spec of a new kernel whose first cell has this code.

        The kernel starts from a template that has loaded the libraries that the cell seems to import.
        """
        preload = preload_for(imports_of(code), always=self._settings.preload)
        return KernelSpec(preload, Mount(workspace), memory_bytes=self._settings.memory_bytes)

    async def aclose(self) -> None:
        """Stop every kernel and remove the socket."""
        self._closed = True
        async with self._opening:
            if self._server is not None:
                await self._server.aclose()
            if self.opened is not None:
                await self.opened.aclose()

    async def _open(self) -> "KernelPool":
        async with self._opening:
            if self.opened is not None:
                return self.opened
            if self._closed:
                raise not_configured("The kernels are closed: the engine is shutting down.")
            if not callable(getattr(self._sandbox, "run_service", None)):
                raise not_configured(
                    f"The sandbox {self._sandbox.name} does not support kernels. Call `execute` without `stateful`."
                )
            # These imports take 0.3 s, so they happen in a thread.
            pools = await asyncio.to_thread(importlib.import_module, "sandbox.kernels.pool")
            servers = await asyncio.to_thread(importlib.import_module, "builtin_tools.kernels.socket_server")
            settings = self._settings
            config = pools.PoolConfig(settings.most, settings.per_agent, settings.warm, idle_s=settings.idle_s)
            pool: KernelPool = pools.KernelPool(self._sandbox, config)
            try:
                self._server = await servers.KernelSocketServer.open(pool, self._folder)
            except OSError as error:
                _log.warning(
                    "%s: the socket cannot be created (%s); `knackbox kernel` will not find this process.",
                    self._folder,
                    error,
                )
            except BaseException:
                await pool.aclose()
                raise
            self.opened = pool
            return pool

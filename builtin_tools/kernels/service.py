"""`Kernels`: what tools find on `ctx`. Nothing of ZeroMQ or Jupyter is imported before the first stateful call."""

import asyncio
import importlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from builtin_tools.refusals import not_configured
from engine.app.settings import KernelSettings
from sandbox.contract import Sandbox

if TYPE_CHECKING:
    from builtin_tools.kernels.sessions import Sessions
    from builtin_tools.kernels.socket_server import KernelSocketServer

_HERE = "builtin_tools.kernels"
_log = logging.getLogger("knackbox.kernels")


class Kernels:
    """One per engine, for its event loop."""

    def __init__(self, sandbox: Sandbox, settings: KernelSettings, folder: Path) -> None:
        """folder: for the socket that `knackbox kernel` talks to."""
        self._sandbox = sandbox
        self._settings = settings
        self._folder = folder
        self._opening = asyncio.Lock()
        self._sessions: Sessions | None = None
        self._server: KernelSocketServer | None = None
        self._closed = False

    @property
    def opened(self) -> "Sessions | None":
        """The sessions, when there has been a stateful call."""
        return self._sessions

    async def sessions(self) -> "Sessions":
        """Opened at the first call. Raises ToolFailure (FATAL) where kernels are not to be had."""
        async with self._opening:
            if self._sessions is None:
                if self._closed:
                    raise not_configured("The kernels are closed: the engine is shutting down.")
                if not callable(getattr(self._sandbox, "run_service", None)):
                    raise not_configured(
                        f"Kernels are not offered by the sandbox {self._sandbox.name}; call without stateful."
                    )
                # 0.3 s of imports, and not in the loop.
                sessions = await asyncio.to_thread(importlib.import_module, f"{_HERE}.sessions")
                module = await asyncio.to_thread(importlib.import_module, f"{_HERE}.socket_server")
                opened: Sessions = sessions.Sessions(self._sandbox, self._settings)
                try:
                    self._server = await module.KernelSocketServer.open(opened, self._folder)
                except OSError as error:
                    _log.warning("%s: no socket can be made (%s); `knackbox kernel` is blind.", self._folder, error)
                except BaseException:
                    await opened.aclose()
                    raise
                self._sessions = opened
            return self._sessions

    async def aclose(self) -> None:
        """End every kernel, and leave no socket behind."""
        self._closed = True
        async with self._opening:
            if self._server is not None:
                await self._server.aclose()
            if self._sessions is not None:
                await self._sessions.aclose()

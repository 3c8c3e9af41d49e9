"""`OwnTor`: the Tor that Knackbox starts, one for each home.

The engine that needs it first starts it and owns it. Others on the same home use it. When the owner closes, it hands
Tor over to another engine that uses it, or else stops it. When the owner is killed, Tor exits too, since the control
connection with the ownership is closed, and the next request of another engine starts it again.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from builtin_tools.web.contract import Progress
from builtin_tools.web.route.tor_control import TorControl, TorControlError
from builtin_tools.web.route.tor_process import TorProcess, run_folder
from builtin_tools.web.route.tor_source import SocksAddress, tor_unavailable
from builtin_tools.web.route.tor_users import TorUser
from builtin_tools.web.settings import TorSettings
from engine.contract.context import Clock

_POLL_S = 0.2
_APPEARS_S = 20.0  # within this time after its start, Tor answers on its control socket
_DONE = 100


class OwnTor:
    """Implements `TorSource` with the machine's `tor`."""

    def __init__(
        self,
        settings: TorSettings,
        folder: Path,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Create the source. Tor is started at the first use.

        Args:
            settings: How Tor is started.
            folder: Its data, locks and control socket.
            clock: The current time.
            sleep: Waits for a number of seconds.
        """
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._sleep = sleep
        self._process = TorProcess(settings, folder)
        self._user: TorUser | None = None
        self._control: TorControl | None = None
        self._connecting: asyncio.Task[TorControl] | None = None
        self._closed = False

    async def ready(self, progress: Progress) -> SocksAddress:
        """Return the SOCKS server of the home's Tor. See `TorSource.ready`."""
        deadline = self._clock.monotonic() + self._settings.bootstrap_s
        shown = ""
        while True:
            control = await self._connected()
            try:
                percent, doing = await control.bootstrap()
                if percent >= _DONE:
                    host, port = await control.socks_listener()
                    return SocksAddress(host, port)
            except TorControlError:  # Tor exited since it was connected
                self._drop(control)
                percent, doing = 0, "starting again"
            if self._clock.monotonic() >= deadline:
                raise tor_unavailable(
                    f"Tor has not connected to its network within {self._settings.bootstrap_s:g} s ({percent} %: "
                    f"{doing}).",
                    "It continues to try. Check the network; where Tor is blocked, a person can name a file with "
                    "bridges as config in [packs.web.tor] of the configuration.",
                )
            if doing != shown:
                progress(f"Tor: {doing}", percent / _DONE)
                shown = doing
            await self._sleep(_POLL_S)

    async def aclose(self) -> None:
        """Stop Tor, or hand it over to another engine that uses it."""
        self._closed = True
        if self._connecting is not None:
            with contextlib.suppress(Exception):  # it was raised where Tor was needed
                await self._connecting
        if self._user is None:
            return
        try:
            await self._leave(self._user)
        finally:
            self._user.close()

    async def _connected(self) -> TorControl:
        """Return the control connection. Start Tor, or wait for the engine that starts it.

        The work is done in a task of its own, so that it neither stops half-way nor leaves a process behind when the
        request is cancelled.
        """
        if self._control is not None:
            if self._user is not None and not self._user.owns and self._user.try_to_own():
                self._drop(self._control)  # the owner has closed; connect again as the owner
            else:
                return self._control
        if self._closed:
            raise tor_unavailable("Tor was stopped with the engine.", "Open the engine again.")
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.create_task(self._connect(), name="connect to Tor")
        self._control = await asyncio.shield(self._connecting)
        return self._control

    async def _connect(self) -> TorControl:
        if self._user is None:
            self._user = await self._registered()
        deadline = self._clock.monotonic() + _APPEARS_S
        while True:
            owner = self._user.try_to_own()
            with contextlib.suppress(TorControlError):
                control = await TorControl.open(run_folder(self._folder))
                if owner:
                    await control.own(os.getpid())
                return control
            if owner and not self._process.running:
                await self._process.start()
            if self._clock.monotonic() >= deadline:
                problem = await self._process.last_lines() if owner else "Another engine on this home is starting it."
                raise tor_unavailable(f"Tor does not answer on its control socket. {problem}", "Try again.")
            await self._sleep(_POLL_S)

    async def _registered(self) -> TorUser:
        try:
            return await asyncio.to_thread(TorUser, self._folder)
        except OSError as error:
            raise tor_unavailable(
                f"{self._folder}: cannot be used ({error.strerror or error}).", "Repair the folder."
            ) from error

    async def _leave(self, user: TorUser) -> None:
        if not user.try_to_own():
            if self._control is not None:
                self._control.close()
            return
        heir = await asyncio.to_thread(user.other_process)
        with contextlib.suppress(TorControlError):  # Tor has exited already
            control = self._control or await TorControl.open(run_folder(self._folder))
            if heir is not None:
                await control.hand_over(heir)
                control.close()
                return
            await control.halt()
        await self._process.stop()

    def _drop(self, control: TorControl) -> None:
        control.close()
        if self._control is control:
            self._control = None
            self._connecting = None

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
from builtin_tools.web.route.tor_process import TorProcess
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
        self._ownership: TorControl | None = None  # Tor exits when it is closed, so nothing else is sent over it
        self._taking: asyncio.Task[None] | None = None
        self._closed = False

    async def ready(self, progress: Progress) -> SocksAddress:
        """Return the SOCKS server of the home's Tor. See `TorSource.ready`."""
        deadline = self._clock.monotonic() + self._settings.bootstrap_s
        while True:
            await self._make_run()
            try:
                async with await TorControl.open(self._folder) as control:
                    return await self._bootstrapped(control, deadline, progress)
            except TorControlError as error:  # it is starting, or has exited
                if self._clock.monotonic() >= deadline:
                    raise tor_unavailable(f"Tor does not answer ({error}).", "Try again.") from error
            await self._sleep(_POLL_S)

    async def aclose(self) -> None:
        """Stop Tor, or hand it over to another engine that uses it."""
        self._closed = True
        if self._taking is not None:
            with contextlib.suppress(Exception):  # it was raised where Tor was needed
                await self._taking
        user, self._user = self._user, None
        if user is None:
            return
        try:
            if await asyncio.to_thread(user.try_to_own):
                await self._leave(user)
        finally:
            await asyncio.to_thread(user.close)

    async def _bootstrapped(self, control: TorControl, deadline: float, progress: Progress) -> SocksAddress:
        """Wait until Tor is connected to its network.

        Raises:
            ToolFailure: It is not by the deadline.
            TorControlError: Tor exited.
        """
        shown = ""
        while True:
            percent, doing = await control.bootstrap()
            if percent >= _DONE:
                return SocksAddress(*await control.socks_listener())
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

    async def _make_run(self) -> None:
        """Start Tor, unless this or another engine on the home has done so.

        The work is done in a task of its own, so that it neither stops half-way nor leaves a process behind when the
        request is cancelled.

        Raises:
            ToolFailure: Tor cannot be started.
        """
        if self._ownership is not None and self._ownership.is_open:
            return
        if self._closed:
            raise tor_unavailable("Tor was stopped with the engine.", "Open the engine again.")
        if self._taking is None or self._taking.done():
            self._taking = asyncio.create_task(self._take(), name="start Tor")
        await asyncio.shield(self._taking)

    async def _take(self) -> None:
        """Become the owner and start Tor, or take over the Tor of an owner that has closed."""
        if self._user is None:
            self._user = await self._registered()
        if not await asyncio.to_thread(self._user.try_to_own):
            return
        deadline = self._clock.monotonic() + _APPEARS_S
        while True:
            with contextlib.suppress(TorControlError):
                self._ownership = await TorControl.open(self._folder)
                await self._ownership.own(os.getpid())
                return
            await self._process.start_unless_running()
            if self._clock.monotonic() >= deadline:
                last = await self._process.last_lines()
                raise tor_unavailable(f"Tor does not answer on its control socket. {last}", "Try again.")
            await self._sleep(_POLL_S)

    async def _registered(self) -> TorUser:
        try:
            return await asyncio.to_thread(TorUser, self._folder)
        except OSError as error:
            raise tor_unavailable(
                f"{self._folder}: cannot be used ({error.strerror or error}).", "Repair the folder."
            ) from error

    async def _leave(self, user: TorUser) -> None:
        """Hand Tor over to another engine, or stop it if there is none."""
        heir = await asyncio.to_thread(user.other_process)
        with contextlib.suppress(TorControlError):  # Tor has exited already
            if self._ownership is None or not self._ownership.is_open:
                self._ownership = await TorControl.open(self._folder)
            if heir is not None:
                await self._ownership.hand_over(heir)
                self._ownership.close()
                return
            await self._ownership.halt()
        await self._process.stop()

"""`tools/list_changed`: said right after the set of tools changed, in this process or in another."""

import logging
from collections.abc import Callable

import anyio
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SubscriptionBus, ToolsListChanged

POLL_S = 0.25  # another process's change is seen within this; reading a generation costs microseconds
log = logging.getLogger(__name__)


class ToolChanges:
    """Compares the generation of the tool set with the one last announced, and tells every client of a difference."""

    def __init__(self, generation: Callable[[], int], bus: SubscriptionBus) -> None:
        """bus: reaches clients of the 2026-07-28 protocol; older ones are reached through `joined` sessions."""
        self._generation = generation
        self._bus = bus
        self._sessions: list[ServerSession] = []
        self._announced = generation()

    def joined(self, session: ServerSession) -> None:
        """A client of an older protocol finished its handshake."""
        self._sessions.append(session)

    async def announce(self) -> None:
        """Tell the clients, if there is anything new."""
        now = self._generation()
        if now == self._announced:
            return
        self._announced = now
        await self._bus.publish(ToolsListChanged())
        for session in list(self._sessions):
            try:
                await session.send_tool_list_changed()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._sessions.remove(session)

    async def watch(self) -> None:
        """Look for changes until cancelled."""
        while True:
            await anyio.sleep(POLL_S)
            await self.announce()

"""The clients of one server, and how they are told that the tools changed."""

import anyio
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SubscriptionBus, ToolsListChanged


class Clients:
    """Reaches clients of every protocol version."""

    def __init__(self, bus: SubscriptionBus) -> None:
        """bus: reaches clients of the 2026-07-28 protocol; older ones are reached through `joined` sessions."""
        self._bus = bus
        self._sessions: list[ServerSession] = []

    def joined(self, session: ServerSession) -> None:
        """A client of an older protocol finished its handshake."""
        self._sessions.append(session)

    async def tools_changed(self) -> None:
        """Tell all of them; one that has left is forgotten."""
        await self._bus.publish(ToolsListChanged())
        for session in list(self._sessions):
            try:
                await session.send_tool_list_changed()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._sessions.remove(session)

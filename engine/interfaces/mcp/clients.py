"""`Clients`: notifies the clients of one server that the tools changed."""

import anyio
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SubscriptionBus, ToolsListChanged


class Clients:
    """Notifies the clients of one server that the tools have changed.

    Clients with protocol version 2026-07-28 or later are notified through a bus, older ones through their sessions.
    """

    def __init__(self, bus: SubscriptionBus) -> None:
        self._bus = bus
        self._sessions: list[ServerSession] = []

    def joined(self, session: ServerSession) -> None:
        """Add the session of a client with an older protocol version, after its handshake."""
        self._sessions.append(session)

    async def tools_changed(self) -> None:
        """Notify all clients, and forget those that have disconnected."""
        await self._bus.publish(ToolsListChanged())
        for session in list(self._sessions):
            try:
                await session.send_tool_list_changed()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._sessions.remove(session)

"""`Clients`: notifies the clients of one server that the tools changed."""

import anyio
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SubscriptionBus, ToolsListChanged

SEND_S = 5.0  # a client that does not read for this long misses the notification; others do not wait for it


class Clients:
    """Notifies the clients of one server that the tools have changed.

    Clients with protocol version 2026-07-28 or later are notified through a bus, older ones through their sessions.
    """

    def __init__(self, bus: SubscriptionBus) -> None:
        self._bus = bus
        self._sessions: set[ServerSession] = set()

    def joined(self, session: ServerSession) -> None:
        """Add the session of a client with an older protocol version, after its handshake, until the session ends."""
        self._sessions.add(session)
        # The SDK closes this stack when the session ends, but gives handlers no public access to it.
        session._connection.exit_stack.callback(self._sessions.discard, session)  # noqa: SLF001

    async def tools_changed(self) -> None:
        """Notify all clients."""
        await self._bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as group:
            for session in self._sessions:
                group.start_soon(self._notify, session)

    async def _notify(self, session: ServerSession) -> None:
        with anyio.move_on_after(SEND_S):
            try:
                await session.send_tool_list_changed()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._sessions.discard(session)

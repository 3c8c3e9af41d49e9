"""`ToolChanges`: sends `tools/list_changed` when the event log reports that any process changed the tools."""

import anyio
import anyio.to_thread

from engine.interfaces.mcp.clients import Clients
from engine.registry.updates import REGISTRY_UPDATED
from engine.stores.event_log import EventLog

POLL_S = 0.25  # the longest delay until a change by another process is noticed; a check takes microseconds
_PAGE = 500


class ToolChanges:
    """Reads new events of the event log and notifies every client when an event reports a change of tools.

    It does not subscribe to the log: a client lists the tools when it connects, so earlier events do not matter.
    """

    def __init__(self, events: EventLog, clients: Clients) -> None:
        self._events = events
        self._clients = clients
        self._read_to = events.generation()
        self._reading = anyio.Lock()

    async def announce(self) -> None:
        """Notify the clients if tools have changed since the last call of this method."""
        async with self._reading:
            if self._events.generation() == self._read_to or not await self._tools_changed():
                return
        await self._clients.tools_changed()

    async def _tools_changed(self) -> bool:
        """Read all new events. Return whether one of them reports a change of tools."""
        changed = False
        while found := await anyio.to_thread.run_sync(self._events.read, self._read_to, _PAGE):
            self._read_to = max(self._read_to, found[-1].offset)
            changed |= any(each.type == REGISTRY_UPDATED and each.payload.get("subject") == "tools" for each in found)
        return changed

    async def watch(self) -> None:
        """Announce changes until cancelled."""
        while True:
            await anyio.sleep(POLL_S)
            await self.announce()

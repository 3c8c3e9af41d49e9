"""`tools/list_changed`: said when the event log tells that tools changed, in this process or in another."""

import anyio
import anyio.to_thread

from engine.interfaces.mcp.clients import Clients
from engine.registry.updates import REGISTRY_UPDATED
from engine.stores.event_log import EventLog

POLL_S = 0.25  # another process's change is seen within this; looking whether the log grew costs microseconds
_PAGE = 500


class ToolChanges:
    """Reads what is new on the event log, and tells every client when tools are among it.

    It needs no place of its own in the log: who connects lists the tools as they are, and hears of what comes after.
    """

    def __init__(self, events: EventLog, clients: Clients) -> None:
        self._events = events
        self._clients = clients
        self._read_to = events.generation()
        self._reading = anyio.Lock()

    async def announce(self) -> None:
        """Tell the clients, if there is anything new."""
        async with self._reading:
            if self._events.generation() == self._read_to or not await self._tools_changed():
                return
        await self._clients.tools_changed()

    async def _tools_changed(self) -> bool:
        """Whether what is new says so; it is read to its end."""
        changed = False
        while found := await anyio.to_thread.run_sync(self._events.read, self._read_to, _PAGE):
            self._read_to = max(self._read_to, found[-1].offset)
            changed |= any(each.type == REGISTRY_UPDATED and each.payload.get("subject") == "tools" for each in found)
        return changed

    async def watch(self) -> None:
        """Look for changes until cancelled."""
        while True:
            await anyio.sleep(POLL_S)
            await self.announce()

"""`FileTools`: a source of the tools in `registries/tools.json`, which stores the disabled tools of all sources."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence

from engine.contract.context import Clock
from engine.contract.failure import FailureClass, refusal
from engine.contract.guard import Guard, GuardRequest
from engine.contract.source import Tool
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.registry.adapters import AdapterError, Adapters, AdapterTool
from engine.registry.file_registry import FileRegistry, View

LOOK_S = 0.2  # interval of checks for changes by other processes; a check takes microseconds
EDITED_S = 1.0  # the same for edited adapters, which takes a check per file
_log = logging.getLogger("knackbox.registry")


class FileTools(Guard):
    """A source of the registered tools, and a guard that refuses disabled tools of any source.

    For one event loop. Changes of this process apply at once.
    """

    name = "registered tools"

    def __init__(self, registry: FileRegistry[ToolSpec], adapters: Adapters, clock: Clock) -> None:
        self.registry = registry
        self.adapters = adapters
        self._clock = clock
        self._look_at = 0.0
        self._edited_at = 0.0
        self._edited = False
        self._reloading = False
        self._view: View[ToolSpec] = View({}, {}, ())
        self._tools: tuple[AdapterTool, ...] = ()
        self._named: Mapping[str, AdapterTool] = {}

    @property
    def disabled(self) -> Mapping[str, str]:
        """Return since when tools are disabled, by id, as known to this process."""
        return self._view.disabled

    def names(self) -> frozenset[str]:
        """Return the names and aliases that are taken, as known to this process."""
        return frozenset(self._named)

    async def tools(self, turn: Turn) -> Sequence[Tool]:  # noqa: ARG002 -- of the protocol; all turns have the same tools
        await self.refresh()
        return self._tools

    async def find(self, name: str) -> Tool | None:
        if self._due():
            await self.refresh()
        found = self._named.get(name)
        return found and (self.adapters.known(found.spec) or found)

    async def refresh(self) -> None:
        """Reload what changed, including edited adapters."""
        view = await asyncio.to_thread(self.registry.view)
        changed = view is not self._view
        if changed:
            self.take_over(view)
        if (changed or self._adapters_edited()) and not self._reloading:
            await self._reload(again=changed)

    async def _reload(self, *, again: bool) -> None:
        """Reload what changed. again: also retry adapters that failed. Concurrent calls use what is loaded."""
        self._reloading, self._edited = True, False
        try:
            for why in (await self.adapters.reload_edited(again=again)).values():
                if why:
                    _log.warning("%s", why)
        finally:
            self._reloading = False

    def take_over(self, view: View[ToolSpec]) -> None:
        """Apply a view."""
        usable = []
        named: dict[str, AdapterTool] = {}
        for spec in view.items.values():
            tool = AdapterTool(spec, self.adapters)
            named |= dict.fromkeys((spec.name, *spec.aliases), tool)
            try:
                self.adapters.check(spec.adapter_path)
            except AdapterError as error:
                _log.warning("The registered tool %s is not offered: %s", spec.name, error)
            else:
                usable.append(tool)
        self._named = named
        self._tools = tuple(sorted(usable, key=lambda tool: tool.spec.name))
        self._view = view
        self.adapters.forget(view.items.values())

    def admit(self, request: GuardRequest) -> Awaitable[None] | None:
        """Check the tool of a call.

        Raises:
            ToolFailure: The tool is disabled (FATAL).
        """
        if self._due():
            return self._admit_later(request)
        if self._view.disabled:
            self._refuse(request.spec)
        return None

    async def _admit_later(self, request: GuardRequest) -> None:
        await self.refresh()
        self._refuse(request.spec)

    def _refuse(self, spec: ToolSpec) -> None:
        since = self._view.disabled.get(spec.id)
        if since is not None:
            remedy = f"`knackbox registry enable {spec.id}` enables it."
            text = f"{spec.name} is disabled since {since}. Nothing was run. {remedy}"
            raise refusal(text, "disabled", FailureClass.FATAL)

    async def set_disabled(self, spec_id: str, disabled: bool) -> bool:
        """Disable or enable a tool of any source, for all processes. False if nothing changed."""
        changed = await asyncio.to_thread(self.registry.set_disabled, spec_id, disabled)
        await self.refresh()
        return changed

    async def delete(self, name: str) -> bool:
        """Delete a registered tool. False if none has this name."""
        await self.refresh()
        found = self._named.get(name)
        if found is None:
            return False
        deleted = await asyncio.to_thread(self.registry.remove, found.spec.id)
        await self.refresh()
        return deleted

    def _due(self) -> bool:
        """Whether a check is due and the file or an adapter has changed."""
        now = self._clock.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_S
        return self.registry.stale() or self.registry.current is not self._view or self._adapters_edited()

    def _adapters_edited(self) -> bool:
        now = self._clock.monotonic()
        if now >= self._edited_at and not self._reloading:
            self._edited_at = now + EDITED_S
            self._edited = self.adapters.edited()
        return self._edited

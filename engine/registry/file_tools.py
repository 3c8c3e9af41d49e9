"""`FileTools`: a source of the tools in `registries/tools.json`.

That file also stores which tools of any source are disabled.
"""

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

EDITED_S = 1.0  # seconds between two checks for edited adapters, which look at the file of every adapter
_log = logging.getLogger("knackbox.registry")


class FileTools(Guard):
    """A source of the registered tools, and a guard that refuses disabled tools of any source.

    Use it in one event loop. Changes made by this process apply at once.

    Attributes:
        disabled: The time at which each disabled tool was disabled, by id, as known to this process.
    """

    name = "registered tools"
    undotted = True  # the pattern for tool names allows no dots

    def __init__(self, registry: FileRegistry[ToolSpec], adapters: Adapters, clock: Clock) -> None:
        self.registry = registry
        self.adapters = adapters
        self._clock = clock
        self._edited_at = 0.0
        self._edited = False
        self._reloading = False
        self._view: View[ToolSpec] | None = None
        self.disabled: Mapping[str, str] = {}
        self._tools: tuple[AdapterTool, ...] = ()
        self._named: Mapping[str, AdapterTool] = {}

    def names(self) -> frozenset[str]:
        """Return the names and aliases of the registered tools, as known to this process."""
        return frozenset(self._named)

    async def tools(self, turn: Turn) -> Sequence[Tool]:  # noqa: ARG002 -- required by the protocol
        if self._due(at_once=True):
            await self.refresh()
        return self._tools

    async def find(self, name: str) -> Tool | None:
        if self._due():
            await self.refresh()
        found = self._named.get(name)
        return found and (self.adapters.known(found.spec) or found)

    async def refresh(self) -> None:
        """Reload the registered tools if their file changed, and the adapters that were edited."""
        view = await asyncio.to_thread(self.registry.view)
        changed = view is not self._view
        if changed:
            self.take_over(view)
        if (changed or self._adapters_edited()) and not self._reloading:
            await self._reload(again=changed)

    async def _reload(self, *, again: bool) -> None:
        """Reload edited adapters. Calls made in the meantime use the old ones.

        Args:
            again: Whether to retry adapters that failed before and have not changed since.
        """
        self._reloading, self._edited = True, False
        try:
            for why in (await self.adapters.reload_edited(again=again)).values():
                if why:
                    _log.warning("%s", why)
        finally:
            self._reloading = False

    def take_over(self, view: View[ToolSpec]) -> None:
        """From now on, offer the tools in this view of the file, and refuse the tools that are disabled in the view."""
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
        self.disabled = view.disabled
        self.adapters.forget(view.items.values())

    def admit(self, request: GuardRequest) -> Awaitable[None] | None:
        """Check that the tool of a call is not disabled.

        Raises:
            ToolFailure: The tool is disabled (FATAL).
        """
        if self._due():
            return self._admit_later(request)
        if self.disabled:
            self._refuse(request.spec)
        return None

    async def _admit_later(self, request: GuardRequest) -> None:
        await self.refresh()
        self._refuse(request.spec)

    def _refuse(self, spec: ToolSpec) -> None:
        since = self.disabled.get(spec.id)
        if since is not None:
            remedy = f"`knackbox registry enable {spec.id}` enables it."
            text = f"{spec.name} has been disabled since {since}. Nothing was run. {remedy}"
            raise refusal(text, "disabled", FailureClass.FATAL)

    async def set_disabled(self, spec_id: str, disabled: bool) -> bool:
        """Disable or enable a tool of any source, for all processes. Return False if nothing changed."""
        changed = await asyncio.to_thread(self.registry.set_disabled, spec_id, disabled)
        await self.refresh()
        return changed

    async def delete(self, name: str) -> bool:
        """Delete a registered tool. Return False if none has this name."""
        await self.refresh()
        found = self._named.get(name)
        if found is None:
            return False
        deleted = await asyncio.to_thread(self.registry.remove, found.spec.id)
        await self.refresh()
        return deleted

    def _due(self, *, at_once: bool = False) -> bool:
        """Return whether the file or an adapter has changed.

        Args:
            at_once: See `FileRegistry.due`.
        """
        return self.registry.due(self._view, at_once=at_once) or (bool(self._named) and self._adapters_edited())

    def _adapters_edited(self) -> bool:
        now = self._clock.monotonic()
        if now >= self._edited_at and not self._reloading:
            self._edited_at = now + EDITED_S
            self._edited = self.adapters.edited()
        return self._edited

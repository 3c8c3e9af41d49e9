"""`Catalogue`: keeps the state of each module: its tools, their age, and whether it answered the last request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from engine.contract.canonical import digest
from engine.contract.context import CallContext, Clock
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.spec import ToolSpec
from engine.remote.cache import ANY_IDENTITY, Cached
from engine.remote.module import Offer, RemoteModule, log
from engine.remote.states import ModuleState

ASK_AGAIN_S = 30.0  # for this many seconds after a failure, turns and calls do not contact the module
_SKEW_S = 60.0  # allowed clock difference; a manifest dated further in the future is not accepted


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """A tool of a module."""

    spec: ToolSpec
    module: RemoteModule

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        return await self.module.run(self.spec, ctx, arguments)


@dataclass(slots=True)
class CatalogueEntry:
    """The state of one module.

    Attributes:
        cached: The module's last manifest, or None if it has expired or there was none.
    """

    module: RemoteModule
    cached: Cached | None = None
    description: str = ""
    left_out: tuple[tuple[str, str], ...] = ()
    tools: dict[str, RemoteTool] = field(default_factory=dict)
    reachable: bool | None = None
    error: str = ""
    denied: bool = False
    failed_at: float | None = None


class Catalogue:
    """Holds the state of every configured module. Use it in one event loop. No method contacts a module."""

    def __init__(self, modules: Sequence[RemoteModule], clock: Clock, ttl_s: float) -> None:
        self._entries = {each.name: CatalogueEntry(each) for each in sorted(modules, key=lambda each: each.name)}
        self.names = tuple(self._entries)
        self._clock = clock
        self._ttl_s = ttl_s
        self._all: tuple[RemoteTool, ...] | None = None

    def entry(self, name: str) -> CatalogueEntry | None:
        """Return the entry of a configured module, or None for any other name. An expired manifest is dropped first."""
        entry = self._entries.get(name)
        if entry is not None and entry.cached is not None and not self._fresh(entry.cached):
            entry.cached, entry.tools, self._all = None, {}, None
        return entry

    def module(self, name: str) -> RemoteModule:
        return self._entries[name].module

    def due(self, name: str) -> bool:
        """Return whether the module must be asked for its manifest before its tools are used."""
        entry = self.entry(name)
        if entry is None or entry.cached is not None:
            return False
        return entry.failed_at is None or self._clock.monotonic() - entry.failed_at >= ASK_AGAIN_S

    def tools(self) -> tuple[RemoteTool, ...]:
        """Return the tools of every module with a valid manifest, by name."""
        for name in self._entries:
            self.entry(name)  # drops an expired manifest
        if self._all is None:
            found = [tool for entry in self._entries.values() for tool in entry.tools.values()]
            self._all = tuple(sorted(found, key=lambda tool: tool.spec.name))
        return self._all

    def refusal(self, name: str) -> ToolFailure:
        """Return the failure for calls to this module. A denial is FATAL; any other failure may be transient."""
        entry = self._entries[name]
        if entry.denied:
            text = f"The module {name} cannot be used: {entry.error}. Nothing was run."
            return refusal(text, "denied", FailureClass.FATAL)
        # Error details contain hosts and commands, so they are in the log and in `states`, but not in the caller's
        # message.
        text = f"The module {name} does not answer. Nothing was run."
        return refusal(text, "module_unreachable", FailureClass.RETRYABLE)

    def newer(self, name: str, cached: Cached) -> bool:
        """Return whether a cached manifest is valid, and newer than the one in use."""
        entry = self._entries[name]
        ours = cached.identity in {ANY_IDENTITY, entry.module.identity} and self._fresh(cached)
        return ours and (entry.cached is None or entry.cached.fetched_at < cached.fetched_at)

    def adopt(self, name: str, cached: Cached, offer: Offer, *, answered: bool) -> None:
        """Use this manifest as the module's current one.

        Unchanged tools keep their objects, so that their schemas are not compiled again.

        Args:
            name: The module.
            cached: The manifest.
            offer: The content of the manifest.
            answered: Whether the manifest came from the module itself, and not from the cache.
        """
        entry = self._entries[name]
        old = entry.tools
        made = {spec.name: RemoteTool(spec, entry.module) for spec in offer.specs}
        entry.tools = {key: old[key] if old.get(key) == tool else tool for key, tool in made.items()}
        entry.cached, entry.description, self._all = cached, offer.description, None
        entry.left_out = tuple(sorted(offer.dropped.items()))
        if answered:
            entry.reachable, entry.error, entry.failed_at = True, "", None
        for tool, why in offer.dropped.items():
            log.warning("module_tool_dropped module=%s tool=%s error=%s", name, tool, why)

    def failed(self, name: str, error: str, *, denied: bool) -> None:
        """Record that the module sent no manifest. Known tools stay until they expire."""
        entry = self._entries[name]
        entry.reachable, entry.error, entry.denied = False, error, denied
        entry.failed_at = self._clock.monotonic()

    def truth(self, name: str) -> dict[str, str]:
        """Return the digest of each tool of a module, by name, to detect changes."""
        entry = self.entry(name)
        tools = {} if entry is None else entry.tools
        return {called: digest(_published_fields(tool)) for called, tool in tools.items()}

    def states(self) -> list[ModuleState]:
        return [self.state(name) for name in self._entries]

    def state(self, name: str) -> ModuleState:
        self.entry(name)  # drops an expired manifest
        entry = self._entries[name]
        return ModuleState(
            name=name,
            kind=entry.module.kind,
            where=entry.module.where,
            description=entry.description,
            tools=tuple(sorted(entry.tools)),
            reachable=entry.reachable,
            error=entry.error,
            refreshed_at=_iso(entry.cached.fetched_at) if entry.cached is not None else "",
            left_out=entry.left_out if entry.cached is not None else (),
        )

    def _fresh(self, cached: Cached) -> bool:
        """Return whether a manifest has not expired."""
        return -_SKEW_S <= (self._clock.now() - cached.fetched_at).total_seconds() < self._ttl_s


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _published_fields(tool: RemoteTool) -> list[object]:
    spec = tool.spec
    return [spec.description, spec.parameters, spec.required_permission, repr(spec.annotations), spec.replay_safe]

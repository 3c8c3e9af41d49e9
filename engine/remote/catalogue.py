"""`Catalogue`: the current state of each module: its tools, their age, and whether it answered last."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from engine.contract.canonical import digest
from engine.contract.context import Clock
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.remote.cache import ANY_IDENTITY, Cached
from engine.remote.module import Offer, RemoteModule, RemoteTool, log
from engine.remote.states import ModuleState

ASK_AGAIN_S = 30.0  # after a failure, before a turn or a call asks again


@dataclass(slots=True)
class _CatalogueEntry:
    """The state of one module. cached: the manifest of its tools; None before the first one and after it expired."""

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
    """One entry per module. For one event loop; no method waits."""

    def __init__(self, modules: Sequence[RemoteModule], clock: Clock, ttl_s: float) -> None:
        self._entries = {each.name: _CatalogueEntry(each) for each in sorted(modules, key=lambda each: each.name)}
        self._clock = clock
        self._ttl_s = ttl_s
        self._all: tuple[RemoteTool, ...] | None = None

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def module(self, name: str) -> RemoteModule:
        return self._entries[name].module

    def known(self, name: str) -> bool:
        """Whether there is a valid manifest. An expired one is dropped."""
        entry = self._entries[name]
        if entry.cached is not None and not entry.cached.fresh(self._clock.now(), self._ttl_s):
            entry.cached, entry.tools, self._all = None, {}, None
        return entry.cached is not None

    def due(self, name: str) -> bool:
        """Whether the module should be asked before its tools are needed."""
        failed_at = self._entries[name].failed_at
        lately = failed_at is not None and self._clock.monotonic() - failed_at < ASK_AGAIN_S
        return not self.known(name) and not lately

    def tools(self) -> tuple[RemoteTool, ...]:
        """Return the tools of every module with a valid manifest, by name."""
        for name in self._entries:
            self.known(name)
        if self._all is None:
            found = [tool for entry in self._entries.values() for tool in entry.tools.values()]
            self._all = tuple(sorted(found, key=lambda tool: tool.spec.name))
        return self._all

    def tool(self, module: str, name: str) -> RemoteTool | None:
        return self._entries[module].tools.get(name) if self.known(module) else None

    def refusal(self, name: str) -> ToolFailure:
        """Return the failure of calls to this module. A denial is FATAL, everything else may be transient."""
        entry = self._entries[name]
        if entry.denied:
            text = f"The module {name} cannot be used: {entry.error}. Nothing was run."
            return refusal(text, "denied", FailureClass.FATAL)
        # Details name hosts and commands, so they are in the log and in `states`, but not in the caller's message.
        text = f"The module {name} does not answer. Nothing was run."
        return refusal(text, "module_unreachable", FailureClass.RETRYABLE)

    def newer(self, name: str, cached: Cached) -> bool:
        """Whether a cached manifest is newer than what is known."""
        entry = self._entries[name]
        ours = cached.identity in {ANY_IDENTITY, entry.module.identity} and cached.fresh(self._clock.now(), self._ttl_s)
        return ours and (entry.cached is None or entry.cached.fetched_at < cached.fetched_at)

    def adopt(self, name: str, cached: Cached, offer: Offer, *, answered: bool) -> None:
        """Apply a manifest. answered: it came from the module itself.

        Unchanged tools keep their objects, so that nothing is compiled again for them.
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
        """Return every tool of a module with a digest, to detect changes."""
        tools = self._entries[name].tools if self.known(name) else {}
        return {called: digest(_told(tool)) for called, tool in tools.items()}

    def states(self) -> list[ModuleState]:
        return [self.state(name) for name in self._entries]

    def state(self, name: str) -> ModuleState:
        known = self.known(name)
        entry = self._entries[name]
        return ModuleState(
            name=name,
            kind=entry.module.kind,
            where=entry.module.where,
            description=entry.description,
            tools=tuple(sorted(entry.tools)),
            reachable=entry.reachable,
            error=entry.error,
            refreshed_at=_iso(entry.cached.fetched_at) if known and entry.cached is not None else "",
            left_out=entry.left_out if known else (),
        )


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _told(tool: RemoteTool) -> list[object]:
    spec = tool.spec
    return [spec.description, spec.parameters, spec.required_permission, repr(spec.annotations), spec.replay_safe]

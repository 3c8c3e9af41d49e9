"""`Modules`: the source of all remote tools (MOD-2, MOD-3). It decides when to ask which module for its manifest.

Modules are asked when their tools are needed. A request for a list of tools waits for modules whose tools are not known
yet, but not longer than `PATIENCE_S` seconds. Tools of modules that answer later appear in the next list, and
subscribers are notified. A call waits only for its own module. A module that did not answer is not asked again for a
while, and keeps the tools of its last manifest.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from engine.contract.context import Clock
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.source import Tool
from engine.contract.turn import Turn
from engine.remote.cache import TTL_S, Cached, ManifestCache
from engine.remote.catalogue import Catalogue
from engine.remote.module import ManifestError, Offer, RemoteModule, log, split_name
from engine.remote.pins import HELD_BACK, ChangedTool, ToolPins
from engine.remote.states import ModuleState
from engine.remote.text import first_of, one_line

DISCOVERY_S = 10.0  # the deadline for one module's manifest
PATIENCE_S = 2.0  # how long a request for a list of tools waits for modules
BURST_S = 0.2  # a module's notifications within this time are combined


class Modules:
    """A source of the tools of all configured modules. Tools are called ``module.tool``. Use it from one event loop."""

    def __init__(
        self,
        modules: Sequence[RemoteModule],
        cache: ManifestCache,
        clock: Clock,
        *,
        changed: Callable[[str, Mapping[str, str]], Any],
        generation: Callable[[], int],
        ttl_s: float = TTL_S,
        pins: ToolPins | None = None,
    ) -> None:
        """Create the source.

        Args:
            modules: The configured modules.
            cache: Stores their manifests.
            clock: The source of time.
            changed: Called with a module's name and the digests of all its tools when the tools may have changed. It
                may block.
            generation: Returns a number that changes when any process on this home changes its tools. The cache is
                then read again.
            ttl_s: How long a manifest is valid, in seconds.
            pins: Holds back tools whose definition has changed. None offers them.
        """
        self._pins = pins
        self._catalogue = Catalogue(modules, clock, ttl_s)
        self._cache = cache
        self._clock = clock
        self._changed = changed
        self._generation = generation
        self._ttl_s = ttl_s
        self._seen: int | None = None
        self._published: dict[str, Mapping[str, str]] = {}
        self._loading = asyncio.Lock()
        self._telling = asyncio.Lock()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._began: dict[str, float] = {}
        self._announced: dict[str, asyncio.Task[None]] = {}
        for module in modules:
            module.watch(lambda name=module.name: self._announce(name))  # type: ignore[misc]

    @property
    def name(self) -> str:
        return "modules"

    def states(self) -> list[ModuleState]:
        """Return the state of every configured module, sorted by name, without contacting any."""
        return self._catalogue.states()

    async def changed_tools(self, names: Iterable[str] | None = None) -> list[ChangedTool]:
        """Return the tools of these modules, or of all, that are held back."""
        if self._pins is None:
            return []
        wanted = self._catalogue.names if names is None else tuple(names)
        return await asyncio.to_thread(self._pins.changed, wanted)

    async def accept(self, tools: Sequence[ChangedTool]) -> list[ChangedTool]:
        """Approve the offered definitions of tools, and offer them in all processes.

        Returns:
            The tools that were not approved, because their modules now offer other definitions than these.
        """
        if self._pins is None:
            return []
        refused = [tool for tool in tools if not await asyncio.to_thread(self._pins.accept, tool)]
        names = {split_name(tool.name)[0] for tool in tools if tool not in refused}
        if names:
            await self.refresh(names)  # other processes read the cache again when this one publishes the change
        return refused

    async def refresh(self, names: Iterable[str] | None = None) -> list[ModuleState]:
        """Ask these modules, or all if `names` is None, for their manifests concurrently (MOD-2). Return their states.

        A module that fails keeps its cached manifest.

        Raises:
            ToolFailure: A name is not configured.
        """
        asked = list(self._catalogue.names) if names is None else sorted(set(names))
        for name in asked:  # called by operators, who may see what is configured
            if name not in self._catalogue.names:
                configured = ", ".join(self._catalogue.names[:20]) or "none"
                raise refusal(f"Unknown module: {one_line(name, 64)}. Configured: {configured}.", "unknown_module")
        await self.load()
        if asked:
            await asyncio.wait([self._ask(name) for name in asked])
        return [self._catalogue.state(name) for name in asked]

    async def discover_all(self) -> list[ModuleState]:
        """Refresh all modules."""
        return await self.refresh()

    async def load(self) -> None:
        """Load the cached manifests, unless they are loaded and no process has changed its tools since."""
        if not self._catalogue.names or self._generation() == self._seen:
            return
        async with self._loading:
            now = self._generation()
            if now == self._seen:
                return
            await asyncio.gather(*(self._take_cached(name) for name in self._catalogue.names))
            self._seen = now

    async def tools(self, turn: Turn) -> Sequence[Tool]:
        """Return the tools of the turn's modules."""
        if not self._catalogue.names:
            return ()
        await self.load()
        wanted = [name for name in self._catalogue.names if turn.modules is None or name in turn.modules]
        await self._wait_a_little([name for name in wanted if self._catalogue.due(name)])
        tools = self._catalogue.tools()
        return tools if turn.modules is None else [tool for tool in tools if tool.module.name in turn.modules]

    async def find(self, name: str) -> Tool | None:
        """Return the tool with this full name, or None if its module has no such tool.

        Raises:
            ToolFailure: There is no such module, or its tools are unknown because it does not answer.
        """
        if "." not in name or not self._catalogue.names:
            return None
        module, _, tool = name.partition(".")
        if not tool or module not in self._catalogue.names:  # callers must not learn what is configured
            split_name(name)  # raises if the name is malformed
            raise refusal(f"Unknown module: {one_line(module, 64)}", "unknown_module")
        await self.load()
        entry = self._catalogue.entry(module)
        if entry is None or entry.cached is None:
            if self._catalogue.due(module):
                await asyncio.wait([self._ask(module)])
            entry = self._catalogue.entry(module)
        if entry is None or entry.cached is None:
            raise self._catalogue.refusal(module)
        if (name, HELD_BACK) in entry.left_out:
            text = f"{name} is held back: {HELD_BACK}. An operator can accept it: knackbox modules accept {name}."
            raise refusal(f"{text} Nothing was run.", "held_back", FailureClass.FATAL)
        return entry.tools.get(name)

    async def aclose(self) -> None:
        """Close connections and processes, and cancel pending tasks."""
        waiting = [*self._asking.values(), *self._announced.values()]
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)
        modules = [self._catalogue.module(name) for name in self._catalogue.names]
        ended = await asyncio.gather(*(module.aclose() for module in modules), return_exceptions=True)
        for module, error in zip(modules, ended, strict=True):
            if isinstance(error, BaseException):
                log.warning("The module %s could not be closed: %s", module.name, one_line(str(error)))
        await self._cache.aclose()

    async def _wait_a_little(self, names: Sequence[str]) -> None:
        """Ask these modules for their manifests. Wait for answers until `PATIENCE_S` seconds after the last request."""
        asked = [self._ask(name) for name in names]
        left = max((self._began[name] + PATIENCE_S for name in names), default=0.0) - asyncio.get_running_loop().time()
        if asked and left > 0:
            await asyncio.wait(asked, timeout=left)

    def _ask(self, name: str) -> "asyncio.Task[None]":
        """Return the task that asks a module for its manifest, after starting it if it is not running.

        The task never raises an exception, and continues even if nobody waits for it any longer.
        """
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.create_task(self._fetch(name))
            self._began[name] = asyncio.get_running_loop().time()
            task.add_done_callback(lambda _: self._asking.pop(name, None))
        return task

    async def _fetch(self, name: str) -> None:
        module, began = self._catalogue.module(name), self._clock.monotonic()
        try:
            async with asyncio.timeout(DISCOVERY_S):
                manifest = await module.fetch()
            cached = Cached(module.identity, self._clock.now(), manifest)
            offer = await asyncio.to_thread(self._read, module, manifest)
        except ManifestError as error:
            self._failed(name, "module_manifest_error", one_line(str(error)))
        except TimeoutError:
            self._failed(name, "module_unreachable", f"no manifest within {DISCOVERY_S:g} s")
        except Exception as error:  # noqa: BLE001 -- errors of one module must not affect the others or the turn
            denied = isinstance(error, ToolFailure) and error.failure_class is FailureClass.FATAL
            # Callers do not learn why a connection failed; the reason is in the state and the log.
            why = error.__cause__ if isinstance(error, ToolFailure) and not denied else None
            event = (
                "module_manifest_error" if denied else "module_unreachable"
            )  # a module that denies access is reachable
            self._failed(name, event, first_of(why or error), denied=denied)
        else:
            took_ms = (self._clock.monotonic() - began) * 1000
            self._catalogue.adopt(name, cached, offer, answered=True)
            log.info("module_discovered module=%s tools=%d ms=%.0f", name, len(offer.specs), took_ms)
            await self._keep(name, cached)
        await self._publish(name)

    def _read(self, module: RemoteModule, manifest: Any) -> Offer:
        """Read a manifest, and hold back changed tools. This blocks.

        Raises:
            ManifestError: The manifest is invalid.
        """
        offer = module.read(manifest)
        return offer if self._pins is None else self._pins.checked(module.name, module.identity, offer)

    def _failed(self, name: str, event: str, error: str, *, denied: bool = False) -> None:
        self._catalogue.failed(name, error, denied=denied)
        log.warning("%s module=%s error=%s", event, name, error)

    async def _keep(self, name: str, cached: Cached) -> None:
        """Store the manifest in the cache. Errors are only logged: the manifest is used even if it cannot be stored."""
        try:
            await self._cache.save(name, cached, self._ttl_s)
        except Exception as error:  # noqa: BLE001 -- see above
            log.warning("The manifest of the module %s could not be stored: %s.", name, first_of(error))

    async def _take_cached(self, name: str) -> None:
        """Load the cached manifest of one module. Errors are only logged, so that they do not affect other modules."""
        try:
            cached = await self._cache.load(name)
            if cached is None or not self._catalogue.newer(name, cached):
                return
            offer = await asyncio.to_thread(self._read, self._catalogue.module(name), cached.manifest)
        except Exception as error:  # noqa: BLE001 -- see above
            log.warning("The cached manifest of the module %s is not used: %s.", name, first_of(error))
        else:
            self._catalogue.adopt(name, cached, offer, answered=False)
            await self._publish(name)

    async def _publish(self, name: str) -> None:
        """Publish the tools of a module if they have changed since they were last published."""
        async with self._telling:
            try:
                truth = self._catalogue.truth(name)
                if truth == self._published.get(name):
                    return
                await asyncio.to_thread(self._changed, name, truth)
            except Exception as error:  # noqa: BLE001 -- the tools stay usable when the store is busy
                log.warning("The changed tools of the module %s could not be published: %s", name, error)
            else:
                self._published[name] = truth

    def _announce(self, name: str) -> None:
        """Ask a module that announced a change for its manifest. Several notifications in a row lead to one request."""
        if name not in self._announced:
            task = self._announced[name] = asyncio.create_task(self._ask_soon(name))
            task.add_done_callback(lambda _: self._announced.pop(name, None))

    async def _ask_soon(self, name: str) -> None:
        await asyncio.sleep(BURST_S)
        under_way = self._asking.get(name)
        if under_way is not None:  # that request may have started before the change
            await asyncio.wait([under_way])
        await asyncio.wait([self._ask(name)])

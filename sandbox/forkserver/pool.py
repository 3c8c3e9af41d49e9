"""Keeps the templates of one sandbox: starts them when needed, replaces dead or worn-out ones, and evicts some."""

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from sandbox.contract import SandboxError
from sandbox.forkserver.server import ForkServer


class Lease(Protocol):
    """Keeps the folder with a template's packages in place while the template lives."""

    def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class TemplateKey:
    """Identifies a template.

    Attributes:
        preload: The modules that it imports.
        packages: The folders of packages that its boxes see.
        in_box: The modules of Knackbox that it loads (`sandbox.contract.InBoxModules`).
    """

    preload: tuple[str, ...]
    packages: tuple[str, ...]
    in_box: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wear:
    """The conditions under which templates are closed.

    Attributes:
        most: The maximum number of templates kept at once.
        forks: A template is replaced after this many forks, so that leaks in it do not accumulate.
        seconds: A template is replaced after this many seconds.
    """

    most: int
    forks: int
    seconds: float


@dataclass(slots=True)
class _TemplateSlot:
    task: asyncio.Task[ForkServer]
    lease: Lease | None
    successor: "_TemplateSlot | None" = None  # replaces a worn-out template once it has started

    @property
    def server(self) -> ForkServer | None:
        """The running template; None while it starts, and when it failed to start."""
        if not self.task.done() or self.task.cancelled() or self.task.exception():
            return None
        return self.task.result()

    async def end(self) -> None:
        with contextlib.suppress(SandboxError):
            await self.task
        try:
            if self.server is not None:
                await self.server.aclose()
        finally:
            if self.lease is not None:
                self.lease.release()
            if self.successor is not None:
                await self.successor.end()


class Templates:
    """Starts, shares and closes templates. Use it in one event loop.

    The constructor is given `start`, which starts the template of a key and raises SandboxError if that fails.
    """

    def __init__(self, wear: Wear, start: Callable[[TemplateKey], Awaitable[ForkServer]]) -> None:
        self._wear = wear
        self._start = start
        # Not a cachetools cache, because templates in use must not be evicted, and evicted templates must be closed.
        self._entries: OrderedDict[TemplateKey, _TemplateSlot] = OrderedDict()
        self._in_use: Counter[TemplateKey] = Counter()
        self._retired: list[_TemplateSlot] = []
        self._closed = False

    @contextlib.asynccontextmanager
    async def using(self, key: TemplateKey, lend: Callable[[], Lease] | None = None) -> AsyncIterator[ForkServer]:
        """Yield the template of a key, which is not closed while in use.

        `lend` returns the lease of the template's packages. It is called once, when the template is started.
        """
        self._in_use[key] += 1  # before the first await: nothing else keeps a new template from eviction
        try:
            server = await self._get(key, lend)
            if len(self._entries) > self._wear.most:
                await self._evict()
            server.jobs += 1
            try:
                yield server
            finally:
                server.jobs -= 1
                if self._retired:
                    await self._close_retired()
        finally:
            self._in_use[key] -= 1
            if not self._in_use[key]:
                del self._in_use[key]

    def runs(self, key: TemplateKey) -> bool:
        """Return whether the template of a key is running, so that a job can start at once."""
        entry = self._entries.get(key)
        server = entry.server if entry is not None else None
        return server is not None and not server.dead and not server.hung

    async def aclose(self) -> None:
        """End every template and all of its boxes."""
        self._closed = True
        entries, self._entries = [*self._entries.values(), *self._retired], OrderedDict()
        self._retired = []
        for entry in entries:
            await entry.end()

    async def _get(self, key: TemplateKey, lend: Callable[[], Lease] | None) -> ForkServer:
        if self._closed:
            raise SandboxError("The sandbox is closed.")
        entry = self._entries.get(key)
        if entry is not None and entry.task.done():
            server = entry.server
            if server is None or server.dead:
                del self._entries[key]
                await entry.end()  # reap the processes that are left
                entry = self._entries.get(key)
            elif server.hung:
                self._retired.append(self._entries.pop(key))
                entry = None
            elif self._worn_out(server):
                self._replace(key, entry, lend)
                entry = self._entries[key]
        if entry is None:
            entry = self._entries[key] = self._begin(key, lend)
        self._entries.move_to_end(key)
        return await asyncio.shield(entry.task)

    def _begin(self, key: TemplateKey, lend: Callable[[], Lease] | None) -> _TemplateSlot:
        return _TemplateSlot(asyncio.ensure_future(self._start(key)), lend() if lend else None)

    def _replace(self, key: TemplateKey, worn: _TemplateSlot, lend: Callable[[], Lease] | None) -> None:
        """Start the successor of a worn-out template, which goes on until its successor has started."""
        if worn.successor is None:
            worn.successor = self._begin(key, lend)
        elif worn.successor.task.done():
            self._entries[key], worn.successor = worn.successor, None
            self._retired.append(worn)

    def _worn_out(self, server: ForkServer) -> bool:
        age_s = asyncio.get_running_loop().time() - server.started
        return server.forks >= self._wear.forks or age_s >= self._wear.seconds

    async def _close_retired(self) -> None:
        """Close each replaced template whose last job has ended."""
        idle = [entry for entry in self._retired if entry.server is None or not entry.server.jobs]
        for entry in idle:
            self._retired.remove(entry)
        for entry in idle:
            await entry.end()

    async def _evict(self) -> None:
        """Close unused templates, least recently used first, until there are no more than allowed."""
        while len(self._entries) > self._wear.most:
            spare = next((key for key, e in self._entries.items() if not self._in_use[key] and e.task.done()), None)
            if spare is None:
                return
            await self._entries.pop(spare).end()

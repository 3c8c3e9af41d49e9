"""The base of backends that run each job in a fresh fork of a template."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from sandbox.backlog import MAX_WAIT_S
from sandbox.contract import Job, Outcome, Protections, SandboxError, SandboxSettings, Writes
from sandbox.egress import rules
from sandbox.environments.environments import Environment, Environments, EnvironmentsConfig
from sandbox.environments.installer import OnProgress
from sandbox.fair_slots import FairSlots
from sandbox.forkserver.one_job import to_its_end
from sandbox.forkserver.pool import TemplateKey, Templates, Wear
from sandbox.forkserver.running import RunningJob
from sandbox.forkserver.server import ForkedBox, ForkServer, TemplateLost, could_not_start
from sandbox.wire.end_reasons import settle
from sandbox.wire.programs import Programs, find_programs, own_packages


@dataclass(frozen=True, slots=True)
class ForkedConfig:
    """warm: boxes kept waiting per template. max_boxes: at once, over all templates. max_waiting: jobs in the queue.
    max_wait_s: a job that would wait longer for a box is refused with Busy.

    forks_per_template, template_s: a template is replaced after so many forks or seconds.
    packages: site-packages folders that boxes see, read-only; a job with requirements sees those of its own instead.
    environments: where those are kept, and what they may take.
    egress: what any job may reach, on top of its own list.
    """

    warm: int = 2
    max_boxes: int = field(default_factory=lambda: 4 * (os.cpu_count() or 1))
    max_waiting: int = 4000
    max_wait_s: float = MAX_WAIT_S
    max_templates: int = 6
    forks_per_template: int = 5000
    template_s: float = 3600.0
    packages: tuple[str, ...] = field(default_factory=own_packages)
    environments: EnvironmentsConfig = field(default_factory=EnvironmentsConfig)
    egress: rules.EgressRules = field(default_factory=rules.EgressRules)

    @classmethod
    def of(cls, settings: SandboxSettings) -> Self:
        """The defaults, with what the house says. Raises ValueError, as `EgressRules` does."""
        environments = EnvironmentsConfig(settings.cache, settings.environments_bytes, settings.build_s)
        return cls(environments=environments, egress=rules.EgressRules(settings.allow_private))


class ForkedSandbox:
    """Keeps templates and slots, and runs one job in one forked box. For one event loop, that of its first job.

    A backend adds `run`, `report` and `_start`, which starts the template of a key.
    """

    def __init__(self, config: ForkedConfig) -> None:
        self._config = config
        wear = Wear(config.max_templates, config.forks_per_template, config.template_s)
        self._templates = Templates(wear, self._start)
        self._environments = Environments(config.environments)
        self._slots = FairSlots(config.max_boxes, config.max_waiting, config.max_wait_s)
        self._programs = find_programs(config.packages)
        self._programs_of_environments = replace(find_programs(()), packages=("/env/0",))
        self._protections: Protections | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def report(self) -> Protections:
        """Return what this machine enforces, tried out once in a process of its own."""
        if self._protections is None:
            self._protections = await asyncio.to_thread(self._probe)
        return self._protections

    async def warm_up(
        self,
        preload: tuple[str, ...] = (),
        requirements: tuple[str, ...] = (),
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Build the environment and start the template ahead of the first job. Raises SandboxError."""
        with await self._environment(requirements, on_progress) as environment:
            await self._started(preload, environment)

    async def aclose(self) -> None:
        """Kill every box and end every template."""
        await self._templates.aclose()

    def _probe(self) -> Protections:
        """Try out what this machine enforces. Blocking."""
        raise NotImplementedError

    async def _start(self, key: TemplateKey) -> ForkServer:
        """Start the template of a key. Raises SandboxError."""
        raise NotImplementedError

    async def _in_a_box(
        self,
        job: Job,
        environment: Environment | None,
        asked: tuple[dict[str, object], bytes],
        begin: Callable[[ForkedBox], RunningJob],
    ) -> Outcome:
        """From an empty box to one that is gone. begin: makes the running job of a box."""
        try:
            return await self._in_one_box(job, environment, asked, begin)
        except TemplateLost:  # nothing has started, and another template takes its place
            return await self._in_one_box(job, environment, asked, begin)

    async def _in_one_box(
        self,
        job: Job,
        environment: Environment | None,
        asked: tuple[dict[str, object], bytes],
        begin: Callable[[ForkedBox], RunningJob],
    ) -> Outcome:
        async with self._using(job.preload, environment) as server:
            tree = await self._open_workspace(server, job)
            try:
                box = await server.acquire()
                return settle(job, await to_its_end(server, box, begin(box), (*asked, tree)))
            finally:
                if tree >= 0:
                    os.close(tree)

    async def _started(self, preload: tuple[str, ...], environment: Environment | None) -> None:
        """Start the template of a job before it takes a slot, so that a slow start is not mistaken for slow jobs."""
        async with self._using(preload, environment):
            pass

    def _programs_for(self, job: Job) -> Programs:
        return self._programs_of_environments if job.requirements else self._programs

    async def _open_workspace(self, server: ForkServer, job: Job) -> int:
        if job.workspace is None:
            return -1
        source = os.fspath(job.workspace.source.absolute())  # links are the kernel's to follow
        return await server.open_workspace(source, writable=job.workspace.writes is Writes.THROUGH)

    async def _environment(
        self, requirements: tuple[str, ...], on_progress: OnProgress | None = None
    ) -> contextlib.AbstractContextManager[Environment | None]:
        if not requirements:
            return contextlib.nullcontext()
        return await self._environments.acquire(requirements, on_progress=on_progress)

    def _using(
        self, preload: tuple[str, ...], environment: Environment | None
    ) -> contextlib.AbstractAsyncContextManager[ForkServer]:
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise SandboxError("A sandbox belongs to the event loop of its first job.", remedy="Make one per loop.")
        self._loop = loop
        if environment:  # whoever picked its packages is no more trusted than the job
            preload = ()
            packages: tuple[str, ...] = (os.fspath(environment.site_packages),)
        else:
            packages = self._config.packages
        key = TemplateKey(tuple(sorted(set(preload))), packages)
        return self._templates.using(key, environment.share if environment else None)

    async def _refuse_without_protection(self) -> None:
        try:
            missing = (await self.report()).missing
        except OSError as problem:  # it is tried out in processes of its own
            raise could_not_start(problem) from None
        if missing:
            first = missing[0]
            raise SandboxError(
                f"Nothing is run: this machine does not give the box '{first.name}' ({first.detail}).",
                remedy=first.remedy or "See `knackbox doctor`.",
            )

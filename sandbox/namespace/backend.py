"""The default sandbox on Linux: every job in a fresh fork of a template, in namespaces of its own."""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Self

from sandbox.backlog import MAX_WAIT_S
from sandbox.contract import Job, OnOutput, Outcome, Protections, SandboxError, SandboxSettings, Writes
from sandbox.egress import plan, rules
from sandbox.egress.gateway import Gateway
from sandbox.egress.journal import OnConnection
from sandbox.egress.resolve import Resolver, SystemResolver
from sandbox.environments.environments import Environment, Environments, EnvironmentsConfig
from sandbox.environments.installer import OnProgress
from sandbox.fair_slots import FairSlots
from sandbox.line import Line
from sandbox.namespace import probe, request
from sandbox.namespace.endings import settle
from sandbox.namespace.forkserver import ForkedBox, ForkServer, TemplateLost, could_not_start
from sandbox.namespace.launch import TemplateWish
from sandbox.namespace.one_job import to_its_end
from sandbox.namespace.programs import Programs, find_programs, own_packages
from sandbox.namespace.running import RunningJob
from sandbox.namespace.templates import TemplateKey, Templates, Wear

# Host user ids no distribution assigns (see systemd's "Users, Groups, UIDs and GIDs": above its container range).
_BOX_UIDS = range(0x70000000, 0x7FFF0000)


@dataclass(frozen=True, slots=True)
class NamespaceConfig:
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


class NamespaceSandbox:
    """For one event loop, that of its first job."""

    name = "namespace"

    def __init__(
        self,
        config: NamespaceConfig | None = None,
        *,
        resolver: Resolver | None = None,
        on_connection: OnConnection | None = None,
    ) -> None:
        """resolver: looks up what boxes may connect to. on_connection: hears of every connection out of a box."""
        self._config = config or NamespaceConfig()
        self._resolver = resolver or SystemResolver()
        self._on_connection = on_connection
        wear = Wear(self._config.max_templates, self._config.forks_per_template, self._config.template_s)
        self._templates = Templates(wear, self._start)
        self._environments = Environments(self._config.environments)
        self._slots = FairSlots(self._config.max_boxes, self._config.max_waiting, self._config.max_wait_s)
        self._programs = find_programs(self._config.packages)
        self._programs_of_environments = replace(find_programs(()), packages=("/env/0",))
        self._box_uid = random.SystemRandom().choice(_BOX_UIDS)
        self._protections: Protections | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def configured(cls, settings: SandboxSettings) -> Self:
        """As the house wants it. Raises ValueError for an `allow_private` that is neither a host nor an address."""
        return cls(NamespaceConfig.of(settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def report(self) -> Protections:
        """What this machine enforces, tried out once in a process of its own."""
        if self._protections is None:
            self._protections = await asyncio.to_thread(probe.protections, self.name)
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

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job in one fresh box. Raises Busy, and SandboxError for what the code is not to blame for."""
        egress = plan.make(rules.checked(job.egress))
        asked = request.build(job, self._programs_for(job), egress)
        # An environment may take minutes to build, so no box is kept from others meanwhile.
        with await self._environment(job.requirements) as environment:
            await self._started(job.preload, environment)
            async with self._slots.slot(job.agent):
                async with self._way_out(egress) as gateway:
                    way_out = gateway.open if gateway else None
                    outcome = await self._in_a_box(
                        job, environment, asked, lambda box: RunningJob(box, job, on_output, way_out)
                    )
                return replace(outcome, connections=gateway.connections) if gateway else outcome

    async def keep(self, job: Job, line: Line) -> Outcome:
        """Run a job that is a server until it ends or this is cancelled, which kills all of its box.

        It takes no slot from other jobs, since it may stay for hours: who keeps such jobs counts them.
        Raises SandboxError, also for a job with egress: the one line into its box must not be taken for a way out.
        """
        if job.egress:
            raise SandboxError("A job with a line into its box has no egress.", remedy="Leave the destinations out.")
        asked = request.build(job, self._programs_for(job), inlets=line.ports)

        def begin(box: ForkedBox) -> RunningJob:
            running = RunningJob(box, job, None, line.opened)
            line.attach(running)
            return running

        with await self._environment(job.requirements) as environment:
            return await self._in_a_box(job, environment, asked, begin)

    async def aclose(self) -> None:
        """Kill every box and end every template."""
        await self._templates.aclose()
        if isinstance(self._resolver, SystemResolver):
            self._resolver.close()

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

    @contextlib.asynccontextmanager
    async def _way_out(self, egress: plan.EgressPlan | None) -> AsyncIterator[Gateway | None]:
        """Carries the job's connections until it has ended. None for a job without egress."""
        if egress is None:
            yield None
            return
        gateway = Gateway(egress, self._config.egress, self._resolver, self._on_connection)
        orderly = False
        try:
            yield gateway
            orderly = True
        finally:
            await gateway.aclose(flush=orderly)

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

    async def _start(self, key: TemplateKey) -> ForkServer:
        await self._refuse_without_protection()
        wish = TemplateWish(key.preload, key.packages, self._programs.path, self._box_uid)
        server = ForkServer(asdict(wish), self._config.warm)
        await server.start()
        return server

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

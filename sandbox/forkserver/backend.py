"""`ForkedSandbox`: the base class of backends that run each job in a fresh fork of a template."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from sandbox.backlog import MAX_WAIT_S
from sandbox.contract import End, Job, Mount, Outcome, Protections, SandboxError, SandboxSettings, Writes
from sandbox.egress import rules
from sandbox.environments.environments import Environment, Environments, EnvironmentsConfig
from sandbox.environments.installer import OnProgress
from sandbox.fair_slots import FairSlots
from sandbox.forkserver.forked_box import ForkedBox
from sandbox.forkserver.pool import TemplateKey, Templates, Wear
from sandbox.forkserver.running import RunningJob
from sandbox.forkserver.server import ForkServer, TemplateLost
from sandbox.forkserver.template_processes import could_not_start
from sandbox.secrets.secret import Secret
from sandbox.wire.end_reasons import with_end_reason
from sandbox.wire.programs import find_programs, own_packages

_BACKSTOP_S = 5.0  # process 1 of the box enforces the time limit; this additional time applies when it cannot
_GONE_WAIT_S = 5.0
_REFILL_AFTER_S = 0.01  # a short job ends before the next box is forked, so the two do not compete for a core


@dataclass(frozen=True, slots=True)
class ForkedConfig:
    """The config of a sandbox that forks its boxes.

    Attributes:
        warm: Boxes kept ready per template.
        most_warm: Boxes kept ready per template under load, when `warm` were not enough.
        max_boxes: Boxes that run at once, over all templates.
        max_waiting: Jobs that may wait in the queue.
        max_wait_s: A job that would wait longer than this many seconds for a box is refused with Busy.
        max_templates: Templates kept at once.
        forks_per_template: A template is replaced after this many forks.
        template_s: A template is replaced after this many seconds.
        packages: Site-packages folders that boxes see, read-only. A job with requirements sees its environment's folder
            instead.
        environments: The folder of the environments, and their size limits.
        egress: The rules that apply to the connections of every job, in addition to the job's own list.
        secrets: Values that the egress proxy substitutes for their placeholders.
    """

    warm: int = 2
    most_warm: int = 8
    max_boxes: int = field(default_factory=lambda: 4 * (os.cpu_count() or 1))
    max_waiting: int = 4000
    max_wait_s: float = MAX_WAIT_S
    max_templates: int = 8
    forks_per_template: int = 5000
    template_s: float = 3600.0
    packages: tuple[str, ...] = field(default_factory=own_packages)
    environments: EnvironmentsConfig = field(default_factory=EnvironmentsConfig)
    egress: rules.EgressRules = field(default_factory=rules.EgressRules)
    secrets: tuple[Secret, ...] = ()

    @classmethod
    def of(cls, settings: SandboxSettings) -> Self:
        """Return the defaults, changed by the application's settings.

        Raises:
            ValueError: An entry of `allow_private` is invalid.
        """
        environments = EnvironmentsConfig(settings.cache, settings.environments_bytes, settings.build_s)
        return cls(
            environments=environments, egress=rules.EgressRules(settings.allow_private), secrets=settings.secrets
        )


class ForkedSandbox:
    """Runs each job in a box that is forked from a template. Belongs to the event loop in which its first job ran.

    A backend is a subclass with the methods `run`, `_probe` and `_start`.
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
        """Return the protections that this machine enforces. They are tested once, in a separate process."""
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
        """Build the environment and start the template ahead of the first job.

        Raises:
            SandboxError: The environment cannot be built, or the template cannot be started.
        """
        with await self._environment(requirements, on_progress) as environment:
            await self._started(Job(preload=preload), environment)

    async def aclose(self) -> None:
        """Kill every box and end every template."""
        await self._templates.aclose()

    def _probe(self) -> Protections:
        """Test which protections this machine enforces. Blocking."""
        raise NotImplementedError

    async def _start(self, key: TemplateKey) -> ForkServer:
        """Start a template with the preloaded modules and the packages that the key names.

        Raises:
            SandboxError: The template cannot be started.
        """
        raise NotImplementedError

    async def _in_a_box(
        self,
        job: Job,
        environment: Environment | None,
        request: tuple[dict[str, object], bytes],
        begin: Callable[[ForkServer, ForkedBox], RunningJob],
        *,
        direct: bool = False,
    ) -> Outcome:
        """Run a job in a fresh box and return once the box is gone.

        Args:
            job: The job.
            environment: The job's environment; None without requirements.
            request: The header and the body of the request that is sent to the box.
            begin: Creates the running job for a box.
            direct: Whether to use a direct box, if the template can fork one.
        """
        try:
            return await self._in_one_box(job, environment, request, begin, direct=direct)
        except TemplateLost:  # nothing has started yet, and another template takes over
            return await self._in_one_box(job, environment, request, begin, direct=direct)

    async def _in_one_box(
        self,
        job: Job,
        environment: Environment | None,
        request: tuple[dict[str, object], bytes],
        begin: Callable[[ForkServer, ForkedBox], RunningJob],
        *,
        direct: bool,
    ) -> Outcome:
        key = self._key(job, environment)
        async with self._templates.using(key, environment.share if environment else None) as server:
            tree = -1 if job.workspace is None else await self._open_workspace(server, job.workspace)
            try:
                box = await server.acquire(direct=direct and server.direct)
                outcome = await run_to_end(server, box, begin(server, box), (*request, tree))
            finally:
                if tree >= 0:
                    os.close(tree)
        return with_end_reason(job, outcome) if outcome.end is End.ERROR else outcome

    async def _started(self, job: Job, environment: Environment | None) -> None:
        """Start the template of a job before the job takes a slot, unless the template runs already.

        `FairSlots` measures how long jobs hold their slots, and a slow start must not count as a slow job.
        """
        key = self._key(job, environment)
        if not self._templates.runs(key):
            async with self._templates.using(key, environment.share if environment else None):
                pass

    async def _open_workspace(self, server: ForkServer, workspace: Mount) -> int:
        source = os.fspath(workspace.source.absolute())  # the kernel follows the links
        return await server.open_workspace(source, writable=workspace.writes is Writes.THROUGH)

    async def _environment(
        self, requirements: tuple[str, ...], on_progress: OnProgress | None = None
    ) -> contextlib.AbstractContextManager[Environment | None]:
        if not requirements:
            return contextlib.nullcontext()
        return await self._environments.acquire(requirements, on_progress=on_progress)

    def _key(self, job: Job, environment: Environment | None) -> TemplateKey:
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise SandboxError(
                "This sandbox belongs to another event loop, in which its first job ran.",
                remedy="Create one sandbox per event loop.",
            )
        self._loop = loop
        if environment:  # the author of the job chose its packages, so they are trusted no more than the job
            return TemplateKey((), (os.fspath(environment.site_packages),))
        in_box = job.in_box.names if job.in_box else ()
        return TemplateKey(tuple(sorted(set(job.preload))), self._config.packages, in_box)

    async def _refuse_without_protection(self) -> None:
        try:
            missing = (await self.report()).missing
        except OSError as problem:  # the probe starts processes
            raise could_not_start(problem) from None
        if missing:
            first = missing[0]
            raise SandboxError(
                f"Nothing was run: this machine does not provide '{first.name}' ({first.detail}).",
                remedy=first.remedy or "See `knackbox doctor`.",
            )


async def run_to_end(
    server: ForkServer, box: ForkedBox, running: RunningJob, request: tuple[dict[str, object], bytes, int]
) -> Outcome:
    """Run the job and return its outcome.

    Args:
        server: The template the box was forked from.
        box: The box.
        running: The job.
        request: The header and the body of the request that is sent to the box, and the descriptor of the workspace's
            mount (-1 without a workspace).

    Raises:
        SandboxError: The box itself failed.
    """
    finished = False
    refill = None
    try:
        await running.send(*request)
        refill = asyncio.get_running_loop().call_later(_REFILL_AFTER_S, server.refill)
        async with asyncio.timeout(running.job.limits.wall_s + _BACKSTOP_S) as backstop:
            running.limit(backstop)
            outcome = await running.outcome()
        finished = True
    except TimeoutError:
        return Outcome(end=End.TIMEOUT)
    finally:
        if not finished:
            await _kill(server, box)
        running.close()
        if refill is not None:
            refill.cancel()
            asyncio.get_running_loop().call_soon(server.refill)  # the task that waits for the outcome runs first
    return outcome


async def _kill(server: ForkServer, box: ForkedBox) -> None:
    """Kill the box and wait until it is gone, even if this task is cancelled."""
    server.kill(box)
    waiting = asyncio.ensure_future(asyncio.wait_for(box.gone.wait(), _GONE_WAIT_S))
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:  # the box must be killed even if the task is cancelled again
            continue
        except TimeoutError:
            server.abandon()
            break

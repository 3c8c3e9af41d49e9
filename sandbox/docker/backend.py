"""The Docker backend: runs every job in its own container, through the docker SDK.

A container is started ahead of its job. Its process 1 runs the code of `sandbox.docker.inside`, and waits for one job
on its standard input. The container ends with the job or with this process, and Docker removes it.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self

from sandbox.contract import End, Job, OnOutput, Outcome, Protections, SandboxError, SandboxSettings
from sandbox.docker import protections
from sandbox.docker.client import Client
from sandbox.docker.config import DockerConfig, Shape, creation, refuse_unsupported
from sandbox.docker.container import Container, dismiss, launch
from sandbox.docker.inlets import KernelSockets, sweep
from sandbox.docker.owner import ContainerOwner, is_left_over
from sandbox.docker.pool import Pool
from sandbox.docker.running import NotTaken, RunningContainerJob
from sandbox.docker.service_job import ServiceJob
from sandbox.fair_slots import FairSlots
from sandbox.service_handle import ServiceHandle
from sandbox.wire import request
from sandbox.wire.end_reasons import with_end_reason

_BACKSTOP_S = 5.0  # process 1 of the container enforces the time limit; this additional time applies when it cannot
_CLOSE_WAIT_S = 20.0
_READY_WAIT_S = 10.0
_ATTEMPTS = 3  # a job fails if this many containers do not accept it
_WARM_FROM = 2  # from this request for a shape on, containers are kept ready; a single request is not worth it
_LOG = logging.getLogger("knackbox.sandbox")


class DockerSandbox:
    """Runs jobs in containers. Containers of one shape (`Shape`: the limits, the workspace and so on) form a pool.

    If there are too many pools, the least recently used one is closed.
    """

    name = "docker"

    def __init__(self, config: DockerConfig | None = None) -> None:
        self._config = config or DockerConfig()
        # A job occupies one thread while it runs; the remaining threads create and remove containers.
        self._client = Client(self._config.url, 2 * self._config.max_boxes + 4)
        self._owner = ContainerOwner.this_process()
        # Not a cachetools cache, because pools must be closed when they are dropped.
        self._pools: OrderedDict[Shape, Pool] = OrderedDict()
        self._slots = FairSlots(self._config.max_boxes, self._config.max_queue)
        self._info: asyncio.Task[dict[str, Any]] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._jobs: set[asyncio.Task[Any]] = set()
        self._closed = False

    @classmethod
    def configured(cls, settings: SandboxSettings) -> Self:
        """Create a sandbox from the application's settings.

        Containers have no network, and only the packages of the image.
        """
        image = settings.image or DockerConfig().image
        return cls(DockerConfig(image=image, runtime=settings.runtime, url=settings.engine_url))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job in a fresh container.

        Raises:
            SandboxError: The job could not be run, for a reason other than its code.
        """
        self._refuse(job)
        async with self._slots.slot(job.agent):
            return await self._put(
                job, (), lambda container: RunningContainerJob(self._client, container, job, on_output)
            )

    async def run_service(self, job: Job, handle: ServiceHandle) -> Outcome:
        """Run a job that is a server, until it ends. Cancelling the call kills the container.

        The job takes no slot, since it may run for hours. The caller must limit the number of these jobs.

        Raises:
            SandboxError: The job could not be run, for a reason other than its code.
        """
        self._refuse(job)
        try:
            inlets = KernelSockets(len(handle.ports))
        except OSError as problem:
            raise SandboxError(
                f"The sockets of a container could not be created: {problem}.",
                remedy="Set XDG_RUNTIME_DIR or TMPDIR to a writable folder.",
            ) from None

        def attached(container: Container) -> RunningContainerJob:
            running = ServiceJob(self._client, container, job, inlets, handle.ports)
            handle.attach(running)
            handle.opened([inlets.folder()])
            return running

        with inlets:
            return await self._put(job, handle.ports, attached)

    async def report(self) -> Protections:
        """Return the protections that a container of this configuration has.

        If the Docker Engine is unreachable, no protection is enforced, and the detail says why.
        """
        try:
            pool = await self._pool(Shape.of(self._config.limits))
            container = await pool.acquire()
        except SandboxError as problem:
            return protections.without_engine(self.name, problem.message, problem.remedy)
        pool.give_back(container)
        return await self._judge(container)

    async def ready(self) -> None:
        """Check that the Docker Engine responds and has the image and the runtime.

        Raises:
            SandboxError: The engine does not respond, or lacks the image or the runtime.
        """
        try:
            async with asyncio.timeout(_READY_WAIT_S):
                await self._engine()
        except TimeoutError:
            raise SandboxError(
                f"No Docker Engine answered at {self._client.address} within {_READY_WAIT_S:g} s.",
                remedy="Start one, or set DOCKER_HOST to the address of one you may use.",
            ) from None

    async def warm_up(self) -> None:
        """Start containers ahead of the first job.

        Raises:
            SandboxError: A container cannot be started.
        """
        pool = await self._pool(Shape.of(self._config.limits))
        container = await pool.acquire()
        pool.give_back(container)
        pool.refill()

    async def aclose(self) -> None:
        """Kill and remove every container of this sandbox, and end its threads."""
        if self._closed:
            return
        self._closed = True
        pools, self._pools = list(self._pools.values()), OrderedDict()
        for pool in pools:
            await pool.close()
        if self._info is not None:
            with contextlib.suppress(SandboxError):
                await self._remove_ours()
        others = self._jobs - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=_CLOSE_WAIT_S)
        if self._background:
            await asyncio.wait(self._background, timeout=_CLOSE_WAIT_S)
        self._client.shut()

    def _refuse(self, job: Job) -> None:
        """Refuse a job that this backend cannot run.

        Raises:
            SandboxError: The job cannot be run by this backend or on this engine.
        """
        refuse_unsupported(job)
        if job.workspace is not None and not self._client.is_local:
            raise SandboxError(
                f"The Docker Engine at {self._client.address} does not see this machine's folders.",
                remedy="Use an engine on this machine for jobs with a workspace.",
            )

    async def _put(
        self, job: Job, inlets: Sequence[int], run_in: Callable[[Container], RunningContainerJob]
    ) -> Outcome:
        """Offer the job to one container after another, until one accepts it."""
        shape = Shape.of(job.limits, job.preload, job.workspace)
        task = asyncio.current_task()
        if task is not None:
            self._jobs.add(task)
        try:
            for attempt in range(_ATTEMPTS):
                pool = await self._pool(shape)
                container = await pool.acquire()
                try:
                    return with_end_reason(job, await self._run_in(container, pool, job, inlets, run_in))
                except NotTaken:
                    if attempt + 1 == _ATTEMPTS:
                        raise
        finally:
            if task is not None:
                self._jobs.discard(task)
        raise AssertionError("unreachable: the last attempt raises")

    async def _run_in(
        self,
        container: Container,
        pool: Pool,
        job: Job,
        inlets: Sequence[int],
        run_in: Callable[[Container], RunningContainerJob],
    ) -> Outcome:
        try:
            header, body = request.build(job, container.programs, inlets=inlets)
        except SandboxError:
            pool.give_back(container)
            raise
        if pool.asked >= _WARM_FROM or container.shape == Shape.of(self._config.limits):
            pool.refill()
        answered = False
        try:
            running = run_in(container)
            async with asyncio.timeout(job.limits.wall_s + _BACKSTOP_S):
                outcome = await running.outcome(header, body)
            answered = True
        except TimeoutError:
            return Outcome(end=End.TIMEOUT)
        finally:
            # Once the container has answered, all its processes are dead, so its removal can go on in the background.
            ending = self._in_background(container)
            if not answered:
                await _see_through(ending)
        return outcome

    async def _pool(self, shape: Shape) -> Pool:
        if self._closed:
            raise SandboxError("The sandbox is closed.")
        await self._engine()
        pool = self._pools.get(shape)
        if pool is None:
            pool = self._pools[shape] = Pool(lambda: self._make(shape), self._in_background, self._config.warm)
        self._pools.move_to_end(shape)
        while len(self._pools) > self._config.max_pools:
            # Evict the least recently used pool that keeps no containers warm, or the least recently used of all.
            others = [other for other in self._pools if other != shape]
            victim = next((other for other in others if not self._pools[other].kept_warm), others[0])
            self._start(self._pools.pop(victim).close())
        return pool

    async def _make(self, shape: Shape) -> Container:
        """Start a container, and check that it has all required protections.

        Raises:
            SandboxError: The container cannot be started, or a protection is missing.
        """
        body = creation(self._config, shape, self._owner.labels)
        container = await self._client.call(launch, self._client, body, shape, self._config.start_wait_s)
        missing = (await self._judge(container)).missing
        if missing:
            await self._in_background(container)
            first = missing[0]
            raise SandboxError(
                f"Nothing was run: containers of this engine lack the protection '{first.name}' ({first.detail}).",
                remedy=first.remedy,
            )
        return container

    async def _judge(self, container: Container) -> Protections:
        return protections.of(self.name, container.facts, await self._engine(), self._config.runtime)

    async def _engine(self) -> dict[str, Any]:
        """Return the Docker Engine's info, which is requested once.

        The first call also removes containers whose owner process has ended.

        Raises:
            SandboxError: The engine is unreachable, or lacks the image or the configured runtime.
        """
        if self._info is None or (self._info.done() and (self._info.cancelled() or self._info.exception())):
            self._info = asyncio.ensure_future(self._meet())
        return await asyncio.shield(self._info)

    async def _meet(self) -> dict[str, Any]:
        info = await self._client.call(self._client.info)
        await self._client.call(self._client.require_image, self._config.image)
        known = info.get("Runtimes") or {}
        if self._config.runtime and self._config.runtime not in known:
            raise SandboxError(
                f"The Docker Engine has no runtime {self._config.runtime!r}; it has {', '.join(sorted(known))}.",
                remedy="Add it to the engine's daemon.json, or choose another runtime.",
            )
        for container in await self._client.call(self._client.containers):
            if is_left_over(container, self._owner):
                _LOG.info("removing container %s, left behind by a process that has ended", container["Id"])
                await self._client.call(self._client.remove, container["Id"])
        await self._client.call(sweep)
        return info

    async def _remove_ours(self) -> None:
        """Remove the containers of this sandbox until the Docker Engine lists none.

        Raises:
            SandboxError: The Docker Engine refuses a request or is unreachable.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_WAIT_S):
                while ours := await self._client.call(self._client.containers, self._owner.name):
                    await asyncio.gather(*(self._client.call(self._client.remove, found["Id"]) for found in ours))

    def _in_background(self, container: Container) -> asyncio.Task[None]:
        return self._start(self._client.call(dismiss, self._client, container))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _LOG.warning("a container could not be removed: %s", problem)


async def _see_through(task: asyncio.Task[None]) -> None:
    """Wait until a container is removed, even if the caller is cancelled, so that no process is left behind."""
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:  # the wait is necessary even after a second cancel
            continue
        except SandboxError:  # the error was logged when the task ended
            return

"""The default sandbox on Linux: runs every job in a fresh fork of a template, in its own namespaces."""

import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Self

from sandbox.bridge.bridge import Bridge
from sandbox.contract import Destination, Job, OnOutput, Outcome, Protections, SandboxError, SandboxSettings, Writes
from sandbox.egress import plan, rules
from sandbox.egress.gateway import Gateway
from sandbox.egress.interception import Interception
from sandbox.egress.journal import OnConnection
from sandbox.egress.resolve import Resolver, SystemResolver
from sandbox.forkserver.backend import ForkedConfig, ForkedSandbox
from sandbox.forkserver.forked_box import ForkedBox
from sandbox.forkserver.pool import TemplateKey
from sandbox.forkserver.running import ForkedJob, RunningJob
from sandbox.forkserver.server import ForkServer
from sandbox.namespace import probe, process_one
from sandbox.namespace.direct_job import DirectJob
from sandbox.namespace.template_config import PROGRAM, NamespaceTemplateConfig
from sandbox.service_handle import ServiceHandle
from sandbox.wire import request

# Host user ids that no distribution assigns, above the container range in systemd's "Users, Groups, UIDs and GIDs".
_BOX_UIDS = range(0x70000000, 0x7FFF0000)


@dataclass(frozen=True, slots=True)
class NamespaceConfig(ForkedConfig):
    """The configuration of the namespace backend, in addition to the settings that all forking backends share.

    Attributes:
        native: Whether to use the native process 1, if it was built.
    """

    native: bool = True


class NamespaceSandbox(ForkedSandbox):
    """Runs every job in a fork of a template, in its own namespaces. Use it only in the event loop of the first job."""

    name = "namespace"

    def __init__(
        self,
        config: NamespaceConfig | None = None,
        *,
        resolver: Resolver | None = None,
        on_connection: OnConnection | None = None,
        trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """Create the sandbox without starting a process.

        Args:
            config: The configuration; None for the defaults.
            resolver: Looks up the hosts that boxes may connect to.
            on_connection: Called for every connection out of a box.
            trust: Creates the TLS context that verifies servers to which secrets are sent. By default, it trusts the
                system's certificate authorities.

        Raises:
            ValueError: The hosts of two secrets contradict each other.
        """
        config = config or NamespaceConfig()
        super().__init__(config)
        self._init = process_one.program() if config.native else ""
        self._resolver = resolver or SystemResolver()
        self._on_connection = on_connection
        self._interception = Interception(self._config.secrets, trust) if self._config.secrets else None
        self._box_uid = random.SystemRandom().choice(_BOX_UIDS)

    @classmethod
    def configured(cls, settings: SandboxSettings) -> Self:
        """Create a sandbox from the settings.

        Raises:
            ValueError: An entry of `allow_private` is invalid, or the hosts of two secrets contradict each other.
        """
        return cls(NamespaceConfig.of(settings))

    def _probe(self) -> Protections:
        return probe.protections(self.name, native=bool(self._init))

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job in a fresh box.

        Raises:
            Busy: All boxes are in use, and the wait would be too long.
            SandboxError: The job could not be run, for a reason other than its code.
        """
        return await self._run(job, on_output, None)

    async def run_bridged(self, job: Job, bridge: Bridge, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job whose programs can ask the engine for something. Closes the bridge.

        Raises:
            Busy: All boxes are in use, and the wait would be too long.
            SandboxError: The job could not be run, for a reason other than its code.
        """
        try:
            return await self._run(job, on_output, bridge)
        finally:
            await bridge.aclose()

    async def _run(self, job: Job, on_output: OnOutput | None, bridge: Bridge | None) -> Outcome:
        egress = await self._plan(job.egress) if job.egress else None
        programs = self._programs_of_environments if job.requirements else self._programs
        asked = request.build(job, programs, egress, bridged=bridge is not None, from_template=True)
        # Building an environment may take minutes, so it is done before the job counts as one of the running jobs.
        with await self._environment(job.requirements) as environment:
            await self._started(job, environment)
            async with self._slots.slot(job.agent):
                async with self._way_out(egress) if egress else contextlib.nullcontext() as gateway:
                    takers = [each for each in (bridge and bridge.opened, gateway and gateway.open) if each]

                    def begin(server: ForkServer, box: ForkedBox) -> RunningJob:
                        running: ForkedJob | DirectJob
                        if box.direct is None:
                            running = ForkedJob(box, job, on_output, _in_order(takers))
                        else:
                            running = DirectJob(server, box, job, on_output, bridge.opened if bridge else None)
                        if bridge is not None:
                            bridge.attach(running)
                        return running

                    direct = _can_be_direct(job)
                    outcome = await self._in_a_box(job, environment, asked, begin, direct=direct)
                return replace(outcome, connections=gateway.connections) if gateway else outcome

    async def run_service(self, job: Job, handle: ServiceHandle) -> Outcome:
        """Run a job that is a server, until it ends. Cancelling the call kills the box.

        Such a job may run for hours, so it does not count towards the maximum number of boxes. The caller must limit
        the number of these jobs.

        Raises:
            SandboxError: The job could not be run, for a reason other than its code, or it has egress. With egress, the
                egress sockets of the box would be mistaken for the server's sockets.
        """
        if job.egress:
            raise SandboxError("A job that is a server cannot have egress.", remedy="Remove the job's destinations.")
        programs = self._programs_of_environments if job.requirements else self._programs
        bridge = handle.bridge
        asked = request.build(job, programs, inlets=handle.ports, bridged=bridge is not None, from_template=True)
        takers = [*([bridge.opened] if bridge is not None else ()), handle.opened]

        def begin(_: ForkServer, box: ForkedBox) -> RunningJob:
            running = ForkedJob(box, job, None, _in_order(takers))
            handle.attach(running)
            return running

        try:
            with await self._environment(job.requirements) as environment:
                return await self._in_a_box(job, environment, asked, begin)
        finally:
            if bridge is not None:
                await bridge.aclose()

    async def aclose(self) -> None:
        """Kill every box and end every template."""
        await super().aclose()
        if isinstance(self._resolver, SystemResolver):
            self._resolver.close()

    async def _plan(self, destinations: Sequence[Destination]) -> plan.EgressPlan | None:
        allowed = rules.checked(destinations)
        made = plan.make(allowed)
        if made is None or self._interception is None:
            return made
        variables, authority = await self._interception.environment(allowed)
        return replace(made, variables=variables, authority=authority)

    @contextlib.asynccontextmanager
    async def _way_out(self, egress: plan.EgressPlan) -> AsyncIterator[Gateway]:
        """Yield the gateway that carries the job's connections until the job ends."""
        gateway = Gateway(egress, self._config.egress, self._resolver, self._on_connection, self._interception)
        orderly = False
        try:
            yield gateway
            orderly = True
        finally:
            await gateway.aclose(flush=orderly)

    async def _start(self, key: TemplateKey) -> ForkServer:
        await self._refuse_without_protection()
        config = NamespaceTemplateConfig(
            key.preload, key.in_box, key.packages, self._programs.path, self._box_uid, self._init
        )
        server = ForkServer(PROGRAM, asdict(config), self._config.warm, self._config.most_warm, direct=bool(self._init))
        await server.start()
        return server


def _can_be_direct(job: Job) -> bool:
    """Return whether a native process 1 is enough for a job.

    It carries no traffic, and reads nothing that a job has written.
    """
    copied = job.workspace is not None and job.workspace.writes is Writes.COPY
    return not (job.egress or job.collect or copied)


def _in_order(takers: Sequence[Callable[[Sequence[int]], None]]) -> Callable[[Sequence[int]], None] | None:
    """Return a function that passes each group of sockets to the next taker, in the order in which a box sends them."""
    if len(takers) <= 1:
        return takers[0] if takers else None
    left = list(takers)

    def take(descriptors: Sequence[int]) -> None:
        left.pop(0)(descriptors)

    return take

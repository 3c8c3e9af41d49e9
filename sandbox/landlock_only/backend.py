"""The `landlock` backend, for machines that forbid user namespaces. It is used only if it is selected by name.

Runs every job in a fresh process without privileges, restricted by Landlock, seccomp and rlimits. It is weaker than
the namespace backend, and its report names the protections that are missing. It refuses to run where Landlock cannot
restrict signals.
"""

import asyncio
import os
import stat
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from sandbox.contract import (
    End,
    Job,
    Mount,
    OnOutput,
    Outcome,
    Protections,
    SandboxError,
    SandboxSettings,
    Unsupported,
    Writes,
)
from sandbox.forkserver.backend import ForkedConfig, ForkedSandbox
from sandbox.forkserver.pool import TemplateKey
from sandbox.forkserver.running import ForkedJob
from sandbox.forkserver.server import ForkServer
from sandbox.landlock_only import machine, probe
from sandbox.landlock_only.template_config import LandlockTemplateConfig, program
from sandbox.service_handle import ServiceHandle
from sandbox.wire import request


@dataclass(frozen=True, slots=True)
class LandlockConfig(ForkedConfig):
    """The configuration of the landlock backend. `folder` is where the jobs' private folders are created.

    If this process runs as root, other users must be able to enter the folder.
    """

    folder: str = field(default_factory=lambda: os.path.realpath(tempfile.gettempdir()))


class LandlockSandbox(ForkedSandbox):
    """Runs every job in a fresh process that Landlock, seccomp and rlimits restrict."""

    name = "landlock"

    def __init__(self, config: LandlockConfig | None = None) -> None:
        config = config or LandlockConfig()
        super().__init__(config)
        self._folder = config.folder
        self._as_root = os.geteuid() == 0
        self._python = machine.interpreter(for_others=self._as_root)
        if self._python is not None:
            self._programs = machine.programs(self._python, config.packages)

    @classmethod
    def configured(cls, settings: SandboxSettings) -> Self:
        """Create a sandbox from the application's settings. There is no network, even if the settings allow one."""
        return cls(LandlockConfig.of(settings))

    def _probe(self) -> Protections:
        """Test which protections this machine enforces, and list those that this backend never provides."""
        return probe.protections(self.name)

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job in a fresh process.

        Raises:
            Busy: All boxes are in use, and the wait would be too long.
            SandboxError: The job could not be run, for a reason other than its code.
        """
        _must_be_possible(job)
        header, body = request.build(job, self._programs, from_template=True)
        with await self._environment(job.requirements) as environment:
            if environment:
                header["env"]["PYTHONPATH"] = job.env.get("PYTHONPATH", str(environment.site_packages))
            await self._started(job, environment)
            async with self._slots.slot(job.agent):
                outcome = await self._in_a_box(
                    job, environment, (header, body), lambda _, box: ForkedJob(box, job, on_output)
                )
        return _with_disk_end(job, outcome)

    async def run_service(self, job: Job, handle: ServiceHandle) -> Outcome:  # noqa: ARG002  (a refused method keeps its signature)
        """Refuse the job, because its ports would be loopback ports of the host.

        Raises:
            SandboxError: Always.
        """
        raise SandboxError("The landlock backend cannot run kernels.", remedy="Use the namespace backend.")

    async def _open_workspace(self, server: ForkServer, workspace: Mount) -> int:
        writes = workspace.writes is Writes.THROUGH
        await asyncio.to_thread(self._refuse_roots_folder, workspace.source, writes=writes)
        return await super()._open_workspace(server, workspace)

    def _refuse_roots_folder(self, source: Path, *, writes: bool) -> None:
        try:
            found = source.stat()
        except OSError as problem:
            raise SandboxError(f"The workspace {source} cannot be opened: {problem.strerror}.") from None
        if not stat.S_ISDIR(found.st_mode) or source.resolve() == Path("/"):
            raise SandboxError(f"The folder {source} cannot be a workspace.", remedy="Use a folder below /.")
        if self._as_root and writes and found.st_uid == 0:
            raise SandboxError(
                f"The workspace {source} belongs to root, and no job runs as root.",
                remedy=f"Start Knackbox as an ordinary user, or give the folder to one: `chown -R 1000:1000 {source}`.",
            )

    async def _start(self, key: TemplateKey) -> ForkServer:
        await self._refuse_without_protection()
        if self._python is None:  # the report of the protections mentions this, too
            raise SandboxError(
                "Other users cannot read any Python interpreter of this machine.", remedy="Install Python below /usr."
            )
        self._must_be_open(key.packages)
        uids = machine.own_uids() if self._as_root else range(-1, 0)
        config = LandlockTemplateConfig(
            preload=key.preload,
            in_box=key.in_box,
            packages=key.packages,
            path=self._programs.path,
            folder=self._folder,
            readable=machine.readable(self._python, key.packages),
            first_uid=uids.start,
            uids=len(uids),
        )
        server = ForkServer(program(self._python), asdict(config), self._config.warm, self._config.most_warm)
        await server.start()
        return server

    def _must_be_open(self, packages: tuple[str, ...]) -> None:
        """Refuse an environment that other users cannot read, such as one in root's home.

        Raises:
            SandboxError: The environment is in a folder that is closed to other users.
        """
        for path in packages if self._as_root and packages != self._config.packages else ():
            if not machine.open_to_all(path):
                raise SandboxError(
                    f"The job's packages are in {path}, which is closed to users other than root.",
                    remedy="Use a cache folder that other users may read, or start Knackbox as an ordinary user.",
                )


def _with_disk_end(job: Job, outcome: Outcome) -> Outcome:
    """Replace the end `file_size` with `disk` if the disk limit is smaller than the file size limit.

    In this backend a job has no separate disk: the file size limit is lowered to the disk limit instead.
    """
    if outcome.end is not End.FILE_SIZE or job.limits.disk_bytes >= job.limits.file_size_bytes:
        return outcome
    hit = tuple(End.DISK.value if each == End.FILE_SIZE else each for each in outcome.usage.limits_hit)
    return replace(outcome, end=End.DISK, usage=replace(outcome.usage, limits_hit=hit))


def _must_be_possible(job: Job) -> None:
    """Refuse a job that this backend cannot run.

    Raises:
        Unsupported: The job needs a feature that this backend lacks.
    """
    if job.egress:
        raise Unsupported(
            "The landlock backend has no network, but the job lists destinations to connect to.",
            remedy="Use the namespace backend.",
        )
    if job.workspace is not None and job.workspace.writes is Writes.COPY:
        raise Unsupported(
            "The landlock backend has no copy-on-write workspaces.",
            remedy="Use the namespace backend, or copy the folder, and let the job write to the copy.",
        )

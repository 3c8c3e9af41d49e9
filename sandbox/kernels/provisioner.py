"""A Jupyter kernel provisioner that runs kernels in boxes. It works with JupyterLab, nbclient and papermill unchanged.

The kernelspec's metadata names the provisioner:
``{"kernel_provisioner": {"provisioner_name": "knackbox", "config": {…}}}``.
"""

import functools
import os
import signal
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Bool, Enum, Float, Integer, Unicode

from sandbox.contract import Mount, SandboxError, Writes
from sandbox.kernels.boxed import BoxedKernel, SocketLocation, code_of
from sandbox.kernels.sandbox_thread import KernelBackendConfig, shared
from sandbox.kernels.spec import KernelSpec

_ALIVE = 0  # signal 0 only checks whether the process exists


class KnackboxProvisioner(KernelProvisionerBase):
    """Runs one kernel at a time, in a box.

    The kernelspec's command is not run, and its environment is not used: the box has the ipykernel of the environment
    that Knackbox runs in, or of the Docker image, and nothing else from the host.
    """

    backend = Enum(
        ("namespace", "docker"), "namespace", config=True, help="Where kernels run: namespace (local boxes) or docker."
    )
    image = Unicode("", config=True, help="With docker: the image, which must contain Python and ipykernel.")
    runtime = Unicode("", config=True, help="With docker: the OCI runtime, such as runsc. Empty: Docker's default.")
    engine_url = Unicode("", config=True, help="With docker: the address of the Docker Engine. Empty: DOCKER_HOST.")
    memory_bytes = Integer(
        KernelSpec().memory_bytes, config=True, help="Memory limit of the kernel and its children together."
    )
    processes = Integer(
        KernelSpec().processes, config=True, help="Limit of concurrent processes. Threads have a separate limit."
    )
    disk_bytes = Integer(
        KernelSpec().disk_bytes,
        config=True,
        help="Maximum total size of the files in the box, in bytes. They are held in memory.",
    )
    cpu_s = Float(KernelSpec().cpu_s, config=True, help="Limit of CPU seconds over all cells.")
    lifetime_s = Float(KernelSpec().lifetime_s, config=True, help="Seconds after which the kernel is ended.")
    workspace = Unicode("", config=True, help="A folder to mount at /work. Empty: a temporary one.")
    notebook_folder = Bool(
        False, config=True, help="Use the folder in which Jupyter starts the kernel as the workspace."
    )
    read_only = Bool(False, config=True, help="Whether the workspace is read-only.")

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._host = shared(KernelBackendConfig(self.backend, self.image, self.runtime, self.engine_url))
        self._kernel: BoxedKernel | None = None
        self._place = SocketLocation()
        self._key = ""

    @property
    def has_process(self) -> bool:
        return self._kernel is not None

    @property
    def why(self) -> str:
        """The reason why the kernel ended, in a few words; "" while the kernel is alive, or if there is no kernel."""
        return self._kernel.why if self._kernel else ""

    async def poll(self) -> int | None:
        return code_of(self._kernel) if self._kernel else 0

    async def wait(self) -> int | None:
        if self._kernel is None:
            return 0
        code = await self._host.do(_end_of(self._kernel))
        self._kernel = None
        return code

    async def send_signal(self, signum: int) -> None:
        if self._kernel is None or signum == _ALIVE:
            return
        if signum == signal.SIGKILL:
            await self._host.do(self._kernel.kill())
        else:
            self._host.tell(functools.partial(self._kernel.signal, int(signum)))

    async def kill(self, restart: bool = False) -> None:
        await self.send_signal(signal.SIGKILL)

    async def terminate(self, restart: bool = False) -> None:
        await self.send_signal(signal.SIGTERM)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Do nothing: the addresses of the kernel are known only when its box exists."""
        return {**kwargs, "cmd": [], "env": {}}

    async def launch_kernel(self, cmd: list[str], **arguments: Any) -> KernelConnectionInfo:
        """Start the kernel. A restarted kernel has the same socket location and key as before.

        Raises:
            SandboxError: The kernel cannot be started.
        """
        spec = self._spec(arguments.get("cwd"))
        work = BoxedKernel.start(self._host.sandbox, spec, place=self._place, key=self._key)
        self._kernel = await self._host.do(work)
        self._key = self._kernel.key
        self.connection_info = self._kernel.connection
        return self.connection_info

    async def cleanup(self, restart: bool = False) -> None:
        if self._kernel is not None:
            await self._host.do(self._kernel.kill())
            self._kernel = None
        if not restart:
            self._place.close()

    def _spec(self, folder: str | os.PathLike[str] | None) -> KernelSpec:
        mount = None
        shown = self.workspace or (_notebook_folder(folder) if self.notebook_folder else "")
        if shown:
            mount = Mount(Path(shown), Writes.NO if self.read_only else Writes.THROUGH)
        return KernelSpec(
            workspace=mount,
            memory_bytes=self.memory_bytes,
            processes=self.processes,
            disk_bytes=self.disk_bytes,
            cpu_s=self.cpu_s,
            lifetime_s=self.lifetime_s,
        )


def _notebook_folder(folder: str | os.PathLike[str] | None) -> Path:
    """Return the notebook's folder if Jupyter passes it, otherwise the working directory, as for other kernels.

    Papermill, for example, does not pass the folder.

    Raises:
        SandboxError: The folder is or contains a home folder, so that the box could read keys and passwords.
    """
    shown, home = Path(folder or Path.cwd()).resolve(), Path.home().resolve()
    if home.is_relative_to(shown):
        raise SandboxError(
            f"The notebook's folder, {shown}, is or contains a home folder, which a box must not read.",
            remedy="Move the notebook to a separate folder, or mount another folder: "
            "knackbox kernelspec install --workspace DIR.",
        )
    return shown


async def _end_of(kernel: BoxedKernel) -> int | None:
    await kernel.gone()
    return code_of(kernel)

"""A kernel as a job: its program, the ports it listens on in its box, and its connection information."""

import json
from pathlib import Path

from jupyter_client.connect import KernelConnectionInfo

from sandbox.contract import Job, Limits
from sandbox.kernels.spec import KernelSpec

# In the box's own network namespace, above the ports that Linux assigns automatically (up to 60999).
PORTS = {"shell": 61001, "iopub": 61002, "stdin": 61003, "control": 61004, "hb": 61005}
# What ipykernel would import after the fork, found by comparing `sys.modules` of a template and of a ready kernel.
PRELOAD = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "logging.handlers",
    "pygments.formatters.terminal256",  # this and the next three are imported for the first traceback
    "pygments.plugin",
    "pygments.styles",
    "stack_data",
    "tornado.platform.asyncio",
    "tornado.queues",
)
_INSIDE = Path(__file__).with_name("inside.py").read_text("utf-8")
_FILE_SIZE_BYTES = 64 << 20


def job(spec: KernelSpec, key: str) -> Job:
    """Return the job that runs this kernel. `key` signs its messages."""
    limits = Limits(
        wall_s=spec.lifetime_s,
        cpu_s=spec.cpu_s,
        memory_bytes=spec.memory_bytes,
        processes=spec.processes,
        threads=spec.threads,
        open_files=spec.open_files,
        file_size_bytes=min(_FILE_SIZE_BYTES, spec.disk_bytes),
        disk_bytes=spec.disk_bytes,
    )
    return Job(
        code=_INSIDE,
        argv=(json.dumps({"ports": PORTS, "key": key}),),
        preload=(*PRELOAD, *spec.preload),
        workspace=spec.workspace,
        limits=limits,
    )


def connection(path: str, key: str) -> KernelConnectionInfo:
    """Return Jupyter's connection information. `path` is that of the sockets, without the dash and the number."""
    return {
        "transport": "ipc",
        "ip": path,
        "shell_port": 1,  # in the order of `PORTS`
        "iopub_port": 2,
        "stdin_port": 3,
        "control_port": 4,
        "hb_port": 5,
        "key": key.encode(),  # type: ignore[typeddict-item]  # Jupyter compares it with bytes
        "signature_scheme": "hmac-sha256",
    }

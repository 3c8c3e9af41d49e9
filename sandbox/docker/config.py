"""Defines the config of the Docker backend, and the shape of the container that a job needs."""

import os
import random
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.contract import Job, Limits, Mount, SandboxError, Unsupported, Writes
from sandbox.docker.bundle import BOOT

TMP, WORK = "/tmp", "/work"  # noqa: S108  (in the container)
# Memory of process 1, of the kernel's tables, and of gVisor's own process, all of which count towards the container's
# limit.
OWN_BYTES = 64 << 20
# gVisor is a multi-threaded program, and has one host process for each of the job's processes. The host counts all of
# these, while process 1 counts only the job's own.
_OWN_PROCESSES = {"runsc": 512}
_INODES = 65_536
# Hidden paths. They replace the engine's default list, and consist of the paths on that list and all of /sys except the
# control groups, which process 1 reads.
_MASKED = (
    *(
        f"/proc/{name}"
        for name in ("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi",
                     "timer_list", "timer_stats")
    ),
    *(
        f"/sys/{name}"
        for name in ("block", "bus", "class", "dev", "devices", "firmware", "hypervisor", "kernel", "module", "power")
    ),
    *(
        f"/sys/fs/{name}"
        for name in ("bcachefs", "bpf", "btrfs", "ecryptfs", "erofs", "ext4", "f2fs", "fuse", "gfs2", "nfs", "nilfs2",
                     "ocfs2", "pstore", "resctrl", "selinux", "smackfs", "tmpfs", "virtiofs", "xfs", "zonefs")
    ),
)  # fmt: skip
# Buffers of a TCP socket (minimum, default, maximum, in bytes), which control groups of version 1 do not count. The
# last entry is the lowest port that ordinary users may bind, since Docker would let them bind every port.
_SYSCTLS = {
    "net.ipv4.tcp_rmem": "4096 16384 131072",
    "net.ipv4.tcp_wmem": "4096 16384 131072",
    "net.ipv4.ip_unprivileged_port_start": "1024",
}
_MAX_OPEN_FILES = 16_384
# Unused user ids: systemd assigns these to services while they run (its "Users, Groups, UIDs and GIDs"), and they also
# exist when Docker remaps user ids. Each container gets a random id, since the kernel counts some resources per user.
_UIDS = range(61_184, 65_520)


@dataclass(frozen=True, slots=True)
class DockerConfig:
    """The settings of the Docker backend: how containers are created, and how many.

    Attributes:
        image: An image with Python 3.11 or newer, and Bash and Node where jobs need them. It is never pulled.
        url: The Docker Engine's address; "" uses DOCKER_HOST and related variables, as the docker command does.
        runtime: An OCI runtime that is installed in the Docker Engine, such as "runc" or gVisor's "runsc"; "" uses the
            default runtime.
        python: The command that starts Python in the image.
        warm: Containers kept ready per shape.
        max_boxes: Jobs that run at once.
        max_queue: Jobs that may wait for a box.
        max_pools: Shapes kept warm at once.
        cpus: Processors one container may use.
        limits: Limits of the containers that are started before the first job, whose own limits are not known yet.
    """

    image: str = "knackbox-box"
    url: str = ""
    runtime: str = ""
    python: str = "python3"
    warm: int = 2
    max_boxes: int = field(default_factory=lambda: 4 * (os.cpu_count() or 1))
    max_queue: int = 256
    max_pools: int = 4
    cpus: float = 1.0
    limits: Limits = field(default_factory=Limits)
    start_wait_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Shape:
    """The properties that are fixed when a container is created. A job runs in a container of exactly its shape."""

    memory_bytes: int
    disk_bytes: int
    processes: int
    threads: int
    preload: tuple[str, ...] = ()
    workspace: Mount | None = None

    @classmethod
    def of(cls, limits: Limits, preload: tuple[str, ...] = (), workspace: Mount | None = None) -> "Shape":
        if workspace is not None:
            workspace = Mount(Path(os.path.realpath(workspace.source)), workspace.writes)
        names = tuple(sorted(set(preload)))
        return cls(limits.memory_bytes, limits.disk_bytes, limits.processes, limits.threads, names, workspace)


def refuse_unsupported(job: Job) -> None:
    """Refuse a job that needs a feature this backend lacks.

    Raises:
        Unsupported: The job needs a feature that this backend lacks.
    """
    remedy = "Use the namespace backend for this job."
    if job.egress:
        raise Unsupported("The docker backend has no egress proxy: its containers have no network.", remedy=remedy)
    if job.requirements:
        raise Unsupported(
            "The docker backend does not install packages: a job has only the packages of its image.", remedy=remedy
        )
    if job.workspace is not None and job.workspace.writes is Writes.COPY:
        raise Unsupported("The docker backend has no copy-on-write workspaces.", remedy=remedy)


def user_for(workspace: Mount | None) -> tuple[int, int]:
    """Return the host user and group a container runs as.

    With a workspace, the container runs as the owner of the folder, so new files get the same owner. Without one, or
    if root owns a read-only workspace, it runs as an unused id.

    Raises:
        SandboxError: The workspace cannot be used, or root owns it and the job may write to it. No container runs as
            root, and Docker has no id-mapped mounts.
    """
    nobody = random.SystemRandom().choice(_UIDS)
    if workspace is None:
        return nobody, nobody
    try:
        found = os.stat(workspace.source)  # noqa: PTH116  (a path that may be a string)
    except OSError as problem:
        raise SandboxError(f"The workspace {workspace.source} cannot be used: {problem.strerror}.") from None
    if not stat.S_ISDIR(found.st_mode):
        raise SandboxError(f"The workspace {workspace.source} is not a folder.")
    if found.st_uid != 0:
        return found.st_uid, found.st_gid or found.st_uid
    if workspace.writes is Writes.NO:
        return nobody, nobody
    raise SandboxError(
        f"The workspace {workspace.source} belongs to root, and no container runs as root.",
        remedy="Give it to an ordinary user (chown), mount it read-only, or use the namespace backend.",
    )


def creation(config: DockerConfig, shape: Shape, labels: dict[str, str]) -> dict[str, Any]:
    """Return the body of the request "Create a container" (Docker Engine API, from version 1.40).

    Raises:
        SandboxError: The workspace cannot be used, or belongs to root.
    """
    uid, gid = user_for(shape.workspace)
    tmpfs = f"rw,exec,nosuid,nodev,size={shape.disk_bytes},nr_inodes={_INODES},mode=0700,uid={uid},gid={gid}"
    memory = shape.memory_bytes + shape.disk_bytes + OWN_BYTES
    host: dict[str, Any] = {
        "AutoRemove": True,
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "Memory": memory,
        "MemorySwap": memory,  # memory plus swap; the same value as `Memory` means no swap
        "PidsLimit": max(shape.processes, shape.threads) + _OWN_PROCESSES.get(config.runtime, 1),
        "NanoCpus": int(config.cpus * 1e9),
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": _MAX_OPEN_FILES, "Hard": _MAX_OPEN_FILES},
        ],
        "Tmpfs": {TMP: tmpfs},
        "ShmSize": shape.disk_bytes,
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "MaskedPaths": list(_MASKED),
        "Sysctls": _SYSCTLS,
        "Init": False,
        "LogConfig": {"Type": "none", "Config": {}},  # a job that never stops printing must not fill the engine's disk
        "Dns": ["127.0.0.1"],  # otherwise the container sees the host's name servers
        "Runtime": config.runtime or None,
    }
    if shape.workspace is None:
        host["Tmpfs"][WORK] = tmpfs
    else:
        host["Mounts"] = [
            {
                "Type": "bind",
                "Source": os.fspath(shape.workspace.source),
                "Target": WORK,
                "ReadOnly": shape.workspace.writes is Writes.NO,
                # A mount inside the workspace would be writable even if the workspace is read-only.
                "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
            }
        ]
    return {
        "Image": config.image,
        "Entrypoint": [config.python, "-I", "-B", "-c", BOOT],
        "Cmd": [],
        "User": f"{uid}:{gid}",
        "WorkingDir": WORK,
        "Hostname": "box",
        "Env": ["OPENBLAS_NUM_THREADS=1"],  # process 1 forks, so no library may have started threads
        "OpenStdin": True,
        "StdinOnce": True,  # when our connection closes, the container's standard input closes, and the container ends
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": labels,
        "HostConfig": host,
    }

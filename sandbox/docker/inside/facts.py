"""Collects facts about a container, inside it, before it accepts a job.

From these facts the host decides which protections the container has. Standard library only.
"""

import contextlib
import ctypes
import os
import shutil
import sys
from typing import Any

from sandbox.docker.inside import counters

_PR_GET_NO_NEW_PRIVS = 39
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Mounts that every container has: its devices, its /proc, and the folders a job may write to.
_OWN = ("/proc", "/dev", "/sys", "/tmp", "/work")  # noqa: S108  (in the container)


def gather(worker_pid: int, landlock_abi: int) -> dict[str, Any]:
    """Return the facts as a JSON object. `worker_pid` is the confined process that will run the job."""
    status = _status(worker_pid)
    path = os.environ.get("PATH") or _DEFAULT_PATH
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "bash": shutil.which("bash", path=path),
        "node": shutil.which("node", path=path),
        "path": path.split(":"),
        "uid": os.getuid(),
        "pid": os.getpid(),
        "capabilities": int(status.get("CapPrm", "1"), 16) | int(status.get("CapBnd", "1"), 16),
        "no_new_privileges": ctypes.CDLL(None).prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
        "worker_seccomp": status.get("Seccomp"),
        "landlock": landlock_abi,
        "writable": _writable(),
        "interfaces": _interfaces(),
        "memory_limit": counters.memory_limit(),
        "process_limit": counters.process_limit(),
        "own_users": not _maps_every_id(),
        "kernel": os.uname().release,
    }


def _status(pid: int) -> dict[str, str]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as source:
        return {key: value.strip() for key, _, value in (line.partition(":") for line in source)}
    return {}


def _writable() -> list[str]:
    """Return the writable mount points, without those that every container has. A writable root is included as "/"."""
    found = []
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as source:
        for line in source:
            _, target, _, options, *_ = line.split(" ")
            own = any(target == place or target.startswith(place + "/") for place in _OWN)
            if "rw" in options.split(",") and not own:
                found.append(target)
    return found


def _interfaces() -> list[str]:
    with contextlib.suppress(OSError), open("/proc/net/dev", encoding="ascii") as source:
        return [line.partition(":")[0].strip() for line in source if ":" in line]
    return ["unknown"]


def _maps_every_id() -> bool:
    """Return whether user ids in the container are the same as on the host."""
    with contextlib.suppress(OSError), open("/proc/self/uid_map", encoding="ascii") as source:
        return source.read().split()[:2] == ["0", "0"]
    return False

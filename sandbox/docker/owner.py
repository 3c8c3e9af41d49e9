"""Labels each container with the process that owns it, so that containers of a dead process can be found and removed.

Normally a container ends with its owner: its standard input closes, it exits, and Docker removes it. The labels are for
containers that were created but not started, and for runtimes that behave differently.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWNER, SPACE, STARTED = "knackbox.owner", "knackbox.pid_namespace", "knackbox.started"
_START_TIME = 19  # field of /proc/<pid>/stat after the closing bracket of the command: start in ticks since boot
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ContainerOwner:
    """Identifies this process to other processes. `name` is `<pid>.<boot id>.<random>`."""

    name: str
    pid_namespace: str
    started: str

    @classmethod
    def this_process(cls) -> "ContainerOwner":
        boot = _BOOT_ID.read_text().strip()
        name = f"{os.getpid()}.{boot}.{secrets.token_hex(8)}"
        return cls(name, _pid_namespace(), _started(os.getpid()))

    @property
    def labels(self) -> dict[str, str]:
        return {OWNER: self.name, SPACE: self.pid_namespace, STARTED: self.started}


def is_left_over(container: Mapping[str, Any], us: ContainerOwner) -> bool:
    """Return whether a container of another owner, as Docker lists it, can be removed.

    This is so if the container has exited, or if its owner is certainly dead. An owner on another machine or in another
    pid namespace may be alive.
    """
    labels = container.get("Labels") or {}
    name = labels.get(OWNER, "")
    if not name or name == us.name:
        return False
    if container.get("State") in ("exited", "dead"):
        return True
    pid, _, rest = name.partition(".")
    same_place = rest.partition(".")[0] == us.name.split(".")[1] and labels.get(SPACE) == us.pid_namespace
    return same_place and pid.isdecimal() and _started(int(pid)) != labels.get(STARTED)


def _pid_namespace() -> str:
    return os.readlink("/proc/self/ns/pid")  # noqa: PTH115  (not a path)


def _started(pid: int) -> str:
    """Return when a process started, in ticks since boot; "" if the process does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START_TIME]
    except OSError:
        return ""

"""Labels each container with its owner, so that containers of a dead owner are found and removed.

When its owner ends, a container ends by itself, because its standard input ends, and the engine removes it. The labels
are for containers that were created but not started yet, and for runtimes that behave otherwise.
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
    """This process, in a form other processes understand. `name` is `<pid>.<boot id>.<random>`."""

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
    """Return whether the owner of this container, as the engine lists it, is dead.

    True only when that is certain: an owner on another machine, or in another pid namespace, may be alive.
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
    """Return when this process started, in ticks since boot; "" when it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START_TIME]
    except OSError:
        return ""

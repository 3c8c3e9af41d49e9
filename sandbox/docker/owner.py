"""Whose container it is, told by its labels, so that what a dead engine left is known and removed.

A container ends with its engine by itself (its standard input ends) and the Docker Engine removes it then. This is for
what was made but not started yet, and for runtimes that do otherwise.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWNER, SPACE, STARTED = "knackbox.owner", "knackbox.pid_namespace", "knackbox.started"
_START_TIME = 19  # field of /proc/<pid>/stat after the command's closing bracket: start in ticks since boot
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Owner:
    """This process, in words that mean the same to another one. name: `<pid>.<boot id>.<random>`."""

    name: str
    pid_namespace: str
    started: str

    @classmethod
    def this_process(cls) -> "Owner":
        boot = _BOOT_ID.read_text().strip()
        name = f"{os.getpid()}.{boot}.{secrets.token_hex(8)}"
        return cls(name, _pid_namespace(), _started(os.getpid()))

    @property
    def labels(self) -> dict[str, str]:
        return {OWNER: self.name, SPACE: self.pid_namespace, STARTED: self.started}


def is_left_over(container: Mapping[str, Any], us: Owner) -> bool:
    """Whether nobody will end this container (as the engine's list shows it) any more.

    Only what can be known: an owner on another machine, or in another pid namespace, may well be alive.
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
    return os.readlink("/proc/self/ns/pid")  # noqa: PTH115  (it is no path)


def _started(pid: int) -> str:
    """When this process started, in ticks since boot; "" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START_TIME]
    except OSError:
        return ""

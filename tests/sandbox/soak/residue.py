"""Finds what a sandbox may have left on the machine, in /proc and /sys. Used by a process that is its subreaper."""

import contextlib
import os
from pathlib import Path

from sandbox.linux import cgroups

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_START = 19  # field of /proc/<pid>/stat after the closing bracket of the command: start time
_CGROUPS = Path("/sys/fs/cgroup")


def stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the third on: state, parent, …

    Raises:
        OSError: The process does not exist.
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def living() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def generations(root: int) -> list[list[int]]:
    """Return the processes below `root` by generation: its children, their children, …"""
    children: dict[int, list[int]] = {}
    for pid in living():
        with contextlib.suppress(OSError):
            children.setdefault(int(stat_of(pid)[1]), []).append(pid)
    found, level = [], children.get(root, [])
    while level:
        found.append(level)
        level = [below for pid in level for below in children.get(pid, [])]
    return found


def parts(engine: int) -> dict[str, list[int]]:
    """Return the processes of an engine by kind: supervisor, template, maker, box (process 1), code."""
    levels = [*generations(engine), [], [], []]
    below = [pid for level in levels[2:] for pid in level]
    makers = [pid for pid in levels[2] if _is_native(pid)]
    if makers:
        boxes = [pid for pid in levels[3] if _is_native(pid)]
        code = [pid for pid in below if pid not in {*makers, *boxes}]
    else:
        boxes, code = levels[2], [pid for level in levels[3:] for pid in level]
    return {"supervisor": levels[0], "template": levels[1], "maker": makers, "box": boxes, "code": code}


def _is_native(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text() == "box_init\n"
    return False


class Seen:
    """Records the namespaces and supervisors of boxes, so that they can be searched for afterwards."""

    def __init__(self) -> None:
        self._own = self._namespaces(os.getpid())
        self.namespaces: dict[str, int] = {}  # "net:[4026532…]" -> the last time, in ticks, at which it was in use
        self.supervisors: set[str] = set()  # as named by `cgroups.owner`

    def look(self, engine: int) -> None:
        levels = generations(engine)
        for pid in levels[0] if levels else ():
            with contextlib.suppress(OSError):
                self.supervisors.add(cgroups.owner(pid))
        now = int(float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK"))
        for pid in (pid for level in levels for pid in level):
            for name in self._namespaces(pid) - self._own:
                self.namespaces[name] = now

    @staticmethod
    def _namespaces(pid: int) -> set[str]:
        found = set()
        for kind in NAMESPACES:
            with contextlib.suppress(OSError):
                found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
        return found

    def members(self) -> list[str]:
        """Return the processes that are still in one of the namespaces.

        The kernel reuses the numbers of dead namespaces, so a process that started later does not belong to the box.
        """
        found = []
        for pid in living():
            with contextlib.suppress(OSError):
                started = int(stat_of(pid)[_START])
                found += [
                    f"{pid} in {name}"
                    for name in self._namespaces(pid)
                    if name in self.namespaces and started <= self.namespaces[name]
                ]
        return found

    def groups(self) -> list[str]:
        """Return the control groups of the recorded supervisors."""
        folders = (*_CGROUPS.glob("knackbox/*"), *_CGROUPS.glob("*/knackbox/*"))
        return [str(folder) for folder in folders if folder.name in self.supervisors]


def mounts() -> list[str]:
    """Return the mounts of this process, without their ids."""
    return [" ".join(line.split()[3:]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def mounted(path: Path) -> list[str]:
    """Return the ids of the live processes in whose mount namespace the folder is a mount point."""
    found = []
    for pid in living():
        with contextlib.suppress(OSError):
            if str(path) in Path(f"/proc/{pid}/mountinfo").read_text():
                found.append(str(pid))
    return found


def unix_sockets() -> int:
    """Return the number of Unix sockets in this network namespace."""
    return len(Path("/proc/self/net/unix").read_text().splitlines()) - 1


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text[text.index("VmRSS:") :].split()[1])

"""A control group per box, where this machine lets us make one. Standard library only.

The kernel then bounds and counts what no process is charged for elsewhere: page tables, socket buffers, semaphores, the
box's tmpfs, and the CPU time of processes nobody waited for. Version 1 has a folder per controller, version 2 one for
all. Everything lies below ``knackbox/<supervisor's pid>-<its start>``, so that what a killed supervisor left behind can
be told from what is in use.
"""

import contextlib
import os
from dataclasses import dataclass
from typing import Any

_V1 = "/sys/fs/cgroup"
_OWN = "knackbox"
_TCP_LIMIT = "memory.kmem.tcp.limit_in_bytes"
# Over the memory limit of the processes, the group holds the box's disk (tmpfs is memory) and process 1.
_SLACK_BYTES = 48 << 20
_TRIES = 5
_TCP_SHARE = 2  # version 1 counts the buffers of sockets on their own: this part of the memory may be theirs
_OUR_PROCESSES = 2  # one being forked, and process 1 where it is in the group
_START = 19  # field of /proc/<pid>/stat after the command's closing bracket


@dataclass(frozen=True)
class Layout:
    """Where groups are made, and what their files are called."""

    version: int
    folders: tuple[str, ...]  # of the controllers; the memory controller's first
    sockets_apart: bool = False  # counted in a file of their own

    @property
    def files(self) -> tuple[tuple[int, str, int], ...]:
        """Of a box's group: which folder, which file, how it is opened; in the order of `Group`'s fields."""
        if self.version == 1:
            sockets = ((0, _TCP_LIMIT, os.O_WRONLY),) if self.sockets_apart else ()
            return (
                (0, "memory.limit_in_bytes", os.O_WRONLY),
                (0, "memory.oom_control", os.O_RDONLY),
                (1, "pids.max", os.O_WRONLY),
                (2, "cpuacct.usage", os.O_RDONLY),
                *sockets,
            )
        return (
            (0, "memory.max", os.O_WRONLY),
            (0, "memory.events", os.O_RDONLY),
            (0, "pids.max", os.O_WRONLY),
            (0, "cpu.stat", os.O_RDONLY),
        )


def find() -> Layout | None:
    """The controllers that may be used here; None when there are none, or they are not writable."""
    v1 = tuple(f"{_V1}/{name}" for name in ("memory", "pids", "cpuacct"))
    if all(os.path.isfile(f"{folder}/cgroup.procs") and os.access(folder, os.W_OK) for folder in v1):
        return Layout(1, v1, os.path.isfile(f"{v1[0]}/{_TCP_LIMIT}"))
    with contextlib.suppress(OSError), open(f"{_V1}/cgroup.subtree_control", encoding="ascii") as enabled:
        if {"memory", "pids"} <= set(enabled.read().split()) and os.access(_V1, os.W_OK):
            return Layout(2, (_V1,))
    return None


def owner(pid: int) -> str:
    """A process's name for good: its pid, and when it started."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return f"{pid}-{stat.read().rpartition(b')')[2].split()[_START].decode()}"


def of_this_process() -> "Groups | None":
    """Where they may be made; rlimits and process 1 of each box bound it everywhere else."""
    layout = find()
    with contextlib.suppress(OSError):
        return Groups(layout, owner(os.getpid())) if layout else None
    return None


class Groups:
    """The groups of one supervisor. Made outside the template's root, used from inside by descriptor."""

    def __init__(self, layout: Layout, name: str) -> None:
        """Raises OSError."""
        self._layout = layout
        self._parents = [f"{folder}/{_OWN}/{name}" for folder in layout.folders]
        sweep(layout)
        for parent in self._parents:
            _make(parent)
        if layout.version == 2:  # noqa: PLR2004
            for level in (os.path.dirname(self._parents[0]), self._parents[0]):
                with open(f"{level}/cgroup.subtree_control", "w", encoding="ascii") as control:
                    control.write("+memory +pids")
        self._folders = [os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for parent in self._parents]

    def make(self, box: int) -> "Group":
        """A group for one box; its descriptors are for process 1 of it. Raises OSError."""
        name, opened = f"b{box}", []
        try:
            for folder in self._folders:
                os.mkdir(name, 0o755, dir_fd=folder)
                opened.append(_open(folder, f"{name}/cgroup.procs", os.O_WRONLY))
            for index, file, flags in self._layout.files:
                opened.append(_open(self._folders[index], f"{name}/{file}", flags))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            self.remove(box)
            raise
        return Group(tuple(opened), len(self._folders))

    def remove(self, box: int) -> None:
        """Once the box is gone."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                os.rmdir(f"b{box}", dir_fd=folder)

    def close(self) -> None:
        """Remove everything; the supervisor does this once the template is dead."""
        for parent in self._parents:
            _remove_tree(parent)
            _remove_if_empty(os.path.dirname(parent))


@dataclass(frozen=True)
class Group:
    """One box's group, by descriptor: one to join each folder, then those of `Layout.files`."""

    descriptors: tuple[int, ...]
    folders: int

    @property
    def _files(self) -> tuple[int, ...]:
        return self.descriptors[self.folders :]

    def join(self) -> None:
        """Move this process in. Takes up to 20 ms on version 1 (an RCU grace period), so it is done ahead."""
        for descriptor in self.descriptors[: self.folders]:
            os.write(descriptor, b"0")
            os.close(descriptor)

    def stay_out(self) -> None:
        """Give up the means to join: this process bounds the group, and must not be what the kernel kills in it."""
        for descriptor in self.descriptors[: self.folders]:
            os.close(descriptor)

    def bound(self, limits: dict[str, Any]) -> None:
        """Set the job's limits, which are `sandbox.contract.Limits` as a dict."""
        memory, _, processes, _, *sockets = self._files
        for file in sockets:
            os.write(file, str(limits["memory_bytes"] // _TCP_SHARE).encode())
        os.write(memory, str(limits["memory_bytes"] + limits["disk_bytes"] + _SLACK_BYTES).encode())
        os.write(processes, str(max(limits["processes"], limits["threads"]) + _OUR_PROCESSES).encode())

    def cpu_s(self) -> float:
        """CPU time of everything that ever ran in the group, in seconds."""
        text = os.pread(self._files[3], 4096, 0).split()
        return int(text[0]) / 1e9 if len(text) == 1 else int(text[1]) / 1e6

    def memory_refused(self) -> bool:
        """Whether the kernel ever killed for the memory limit."""
        text = os.pread(self._files[1], 4096, 0).split()
        return b"oom_kill" in text and int(text[text.index(b"oom_kill") + 1]) > 0


def sweep(layout: Layout | None) -> int:
    """Remove the groups of supervisors that are no more; how many must stay, since something still dies in them."""
    left = 0
    for controller in layout.folders if layout else ():
        folder = f"{controller}/{_OWN}"
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(folder):
                if os.path.isdir(f"{folder}/{name}") and not _alive(name):
                    _remove_tree(f"{folder}/{name}")
                    left += os.path.isdir(f"{folder}/{name}")
            _remove_if_empty(folder)
    return left


def _make(folder: str) -> None:
    """Again, when another supervisor removed the parent as empty in the same moment."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            os.makedirs(folder, exist_ok=True)
            return
    os.makedirs(folder, exist_ok=True)


def _remove_if_empty(folder: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _remove_tree(parent: str) -> None:
    """A supervisor's groups; one with a process still dying in it stays for the next sweep."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if os.path.isdir(f"{parent}/{name}"):
                with contextlib.suppress(OSError):
                    os.rmdir(f"{parent}/{name}")
        os.rmdir(parent)


def _alive(name: str) -> bool:
    pid = name.partition("-")[0]
    try:
        return pid.isdecimal() and owner(int(pid)) == name
    except (OSError, IndexError):
        return False


def _open(folder: int, path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, dir_fd=folder)

"""Creates a control group per box, where this machine allows it. Standard library only.

With a group, the kernel also limits and counts what no process is charged for: page tables, socket buffers, semaphores,
the box's tmpfs, and the CPU time of processes nobody waited for. Version 1 has a folder per controller, version 2 one
for all. The folders are below ``knackbox/<pid namespace>-<supervisor's pid>-<its start time>``. The name shows whether
a group is still in use or was left behind by a killed supervisor. Groups of other pid namespaces, such as those of an
engine in a container that sees the same groups, are left alone, because their processes cannot be seen.
"""

import contextlib
import os
from dataclasses import dataclass
from typing import Any

_V1 = "/sys/fs/cgroup"
_OWN = "knackbox"
_TCP_LIMIT = "memory.kmem.tcp.limit_in_bytes"
# A group may use the job's memory limit, its disk limit (tmpfs is memory), and this much for process 1.
_SLACK_BYTES = 48 << 20
_TRIES = 5
_TCP_SHARE = 2  # version 1 counts socket buffers separately: they may use this fraction of the memory limit
_OUR_PROCESSES = 2  # a process that is being forked, and process 1, which is in the group in some backends
_CPU = 3  # the position of the file with the CPU time in `Layout.files`
_START = 19  # field of /proc/<pid>/stat after the closing bracket of the command


@dataclass(frozen=True)
class Layout:
    """Where groups are created, and the names of their files."""

    version: int
    folders: tuple[str, ...]  # folders of the controllers, the memory controller's first
    sockets_apart: bool = False  # whether socket buffers are counted in a separate file

    @property
    def files(self) -> tuple[tuple[int, str, int], ...]:
        """The files of a box's group: the folder, the file, and the open flags, in the order of `Group`'s fields."""
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
    """Return where this process can create groups; None if the controllers are missing or not writable."""
    v1 = tuple(f"{_V1}/{name}" for name in ("memory", "pids", "cpuacct"))
    if all(os.path.isfile(f"{folder}/cgroup.procs") and os.access(folder, os.W_OK) for folder in v1):
        return Layout(1, v1, os.path.isfile(f"{v1[0]}/{_TCP_LIMIT}"))
    with contextlib.suppress(OSError), open(f"{_V1}/cgroup.subtree_control", encoding="ascii") as enabled:
        if {"memory", "pids"} <= set(enabled.read().split()) and os.access(_V1, os.W_OK):
            return Layout(2, (_V1,))
    return None


def owner(pid: int) -> str:
    """Return a unique name for a process of our pid namespace: the namespace, the pid, and its start time.

    A pid may be used again, but not with the same start time.
    """
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return f"{_namespace()}-{pid}-{stat.read().rpartition(b')')[2].split()[_START].decode()}"


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def of_this_process() -> "Groups | None":
    """Return the groups of this process; None if it cannot create groups. Rlimits and process 1 must then suffice."""
    layout = find()
    with contextlib.suppress(OSError):
        return Groups(layout, owner(os.getpid())) if layout else None
    return None


class Groups:
    """The groups of one supervisor. They are opened outside the template's root, and used inside it as descriptors."""

    def __init__(self, layout: Layout, name: str) -> None:
        """Create the supervisor's folders.

        Raises:
            OSError: A folder cannot be created.
        """
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
        """Create the group of a box. Process 1 of the box inherits the group's descriptors.

        Raises:
            OSError: The group cannot be created.
        """
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

    def to_read(self, box: int) -> "Group | None":
        """Open the group of a box to read its CPU time; None if it is gone."""
        index, file, flags = self._layout.files[_CPU]
        with contextlib.suppress(OSError):
            return Group((-1, -1, -1, _open(self._folders[index], f"b{box}/{file}", flags)), 0)
        return None

    def remove(self, box: int) -> None:
        """Remove the group of a box that is gone."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                os.rmdir(f"b{box}", dir_fd=folder)

    def close(self) -> None:
        """Remove all groups. The supervisor calls this once the template is dead."""
        for parent in self._parents:
            _remove_tree(parent)
            _remove_if_empty(os.path.dirname(parent))


@dataclass(frozen=True)
class Group:
    """The group of one box, as descriptors: one per folder for joining the group, then those of `Layout.files`."""

    descriptors: tuple[int, ...]
    folders: int

    @property
    def files(self) -> tuple[int, ...]:
        """The descriptors of the files of `Layout.files`."""
        return self.descriptors[self.folders :]

    def join(self) -> None:
        """Move this process into the group.

        Takes up to 20 ms on version 1 (an RCU grace period), so call it before the job arrives.
        """
        for descriptor in self.descriptors[: self.folders]:
            os.write(descriptor, b"0")
            os.close(descriptor)

    def stay_out(self) -> None:
        """Close the descriptors for joining: this process enforces the limits, and must not be subject to them."""
        for descriptor in self.descriptors[: self.folders]:
            os.close(descriptor)

    def bound(self, limits: dict[str, Any]) -> None:
        """Give the group the limits of a job. `limits` is a `sandbox.contract.Limits` as a dict."""
        memory, _, processes, _, *sockets = self.files
        bounds = GroupBounds.of(limits)
        for file in sockets:
            os.write(file, str(bounds.sockets).encode())
        os.write(memory, str(bounds.memory).encode())
        os.write(processes, str(bounds.processes).encode())

    def cpu_s(self) -> float:
        """Return the CPU time of everything that ever ran in the group, in seconds."""
        return cpu_s(os.pread(self.files[_CPU], 4096, 0))

    def memory_refused(self) -> bool:
        """Return whether the kernel has killed a process for exceeding the memory limit."""
        return memory_refused(os.pread(self.files[1], 4096, 0))


@dataclass(frozen=True)
class GroupBounds:
    """The numbers to write to the files of a box's group.

    Attributes:
        memory: In bytes, with the box's tmpfs.
        processes: Processes and threads.
        sockets: The buffers of sockets, in bytes, where they are counted separately.
    """

    memory: int
    processes: int
    sockets: int

    @classmethod
    def of(cls, limits: dict[str, Any]) -> "GroupBounds":
        """Return the bounds for a job's limits, a `sandbox.contract.Limits` as a dict."""
        return cls(
            limits["memory_bytes"] + limits["disk_bytes"] + _SLACK_BYTES,
            max(limits["processes"], limits["threads"]) + _OUR_PROCESSES,
            limits["memory_bytes"] // _TCP_SHARE,
        )


def cpu_s(text: bytes) -> float:
    """Return the CPU time in seconds from the text of a group's file."""
    words = text.split()
    return int(words[0]) / 1e9 if len(words) == 1 else int(words[1]) / 1e6


def memory_refused(text: bytes) -> bool:
    """Return whether the kernel has killed a process for exceeding the memory limit, from the text of the events."""
    words = text.split()
    return b"oom_kill" in words and int(words[words.index(b"oom_kill") + 1]) > 0


def sweep(layout: Layout | None) -> int:
    """Remove the groups of ended supervisors. Return how many remain because a process in them is still dying."""
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
    """Create a folder. Try again if another supervisor removes the empty parent at the same moment."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            os.makedirs(folder, exist_ok=True)
            return
    os.makedirs(folder, exist_ok=True)


def _remove_if_empty(folder: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _remove_tree(parent: str) -> None:
    """Remove a supervisor's groups. A group in which a process is still dying is left for the next sweep."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if os.path.isdir(f"{parent}/{name}"):
                with contextlib.suppress(OSError):
                    os.rmdir(f"{parent}/{name}")
        os.rmdir(parent)


def _alive(name: str) -> bool:
    """Return whether the supervisor of this folder is running, or may be running in another pid namespace."""
    try:
        namespace, pid, _ = map(int, name.split("-"))
        return namespace != _namespace() or owner(pid) == name
    except (OSError, IndexError, ValueError):
        return False


def _open(folder: int, path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, dir_fd=folder)

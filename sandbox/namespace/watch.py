"""What all processes of a box use together, read from its own /proc. Standard library only.

rlimits bind single processes; the tree is bound here, by process 1, which looks every 10 to 50 ms. Where a cgroup
holds the box as well, the kernel is exact and this is the second line.
"""

import os
import resource
import time
from dataclasses import dataclass
from typing import Any

from sandbox.namespace.cgroups import Group

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
# Node 24 has 573 MB of VmData before its first line (measured): address space, not memory. Its heap has a switch of
# its own, and what it touches is bounded here.
_V8_RESERVES = 640 << 20
_CERTAINLY = 4  # so many times its disk gone: ended, though its processes do not own up to the writing
_UTIME, _CSTIME = 11, 14  # own and reaped children's: fields of /proc/<pid>/stat after the command's closing bracket


def data_in_use() -> dict[str, int]:
    """By language, the bytes RLIMIT_DATA counts before a job does anything: the template's, V8's reservation."""
    return {"python": _status_bytes("self/status", b"VmData:"), "node": _V8_RESERVES, "bash": 0}


@dataclass(frozen=True)
class Used:
    """cpu_s: of all processes. max_rss_bytes: of the largest one."""

    cpu_s: float
    max_rss_bytes: int


class TreeWatch:
    """Samples a box. disk: where the box's tmpfs is seen. group: its control group, where there is one."""

    def __init__(self, disk: str, group: Group | None = None) -> None:
        self._group = group
        self._limits: dict[str, Any] = {}
        self._disk = disk
        self._peak = 0
        self._hits: set[str] = set()
        self._workspace = ""
        self._free_before = 0
        self._cpu_before = 0.0
        # A fork of a template starts with the template's pages: shared, and not the job's doing.
        self._inherited = _anonymous("self")
        self._max_rss_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def begin(self, limits: dict[str, Any], worker: int, workspace: str = "") -> None:
        """Called as the worker starts on its job.

        limits: `sandbox.contract.Limits` as a dict. workspace: where the host's folder is seen, if it is written to.
        """
        self._limits = limits
        self._workspace = workspace
        self._free_before = _free_bytes(workspace) if workspace else 0
        self._cpu_before = self._group.cpu_s() if self._group else _cpu_clock_s(worker)

    def used_alone(self, worker: int) -> Used | None:
        """What a live worker has used; None when the box ever had another process or thread."""
        if _read("loadavg").rsplit(None, 1)[-1] != str(worker).encode():  # the last pid this namespace gave away
            return None
        cpu = self._group.cpu_s() if self._group else _cpu_clock_s(worker)
        return Used(max(0.0, cpu - self._cpu_before), _status_bytes(f"{worker}/status", b"VmHWM:"))

    def used_by_all(self) -> Used:
        """What every process of the box has used, once all are reaped."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = self._group.cpu_s() if self._group else used.ru_utime + used.ru_stime
        return Used(max(0.0, cpu - self._cpu_before), used.ru_maxrss * 1024)

    def exceeded(self) -> str:
        """Look once; the name of the limit the tree is over, or ""."""
        pids = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        if len(pids) >= self._limits["processes"]:
            self._hits.add("processes")
        self._look_at_disk()
        memory = sum(_anonymous(pid) for pid in pids)
        if memory > self._limits["memory_bytes"]:
            memory = sum(_proportional(pid) for pid in pids)  # exact, and too slow to read every time
        else:
            memory = max(0, memory - self._inherited * len(pids))
        self._peak = max(self._peak, memory)
        if memory > self._limits["memory_bytes"]:
            self._hits.add("memory")
            return "memory"
        if self._workspace and self._filled(pids):
            self._hits.add("disk")
            return "disk"
        if self._cpu_now(pids) > self._limits["cpu_s"]:
            self._hits.add("cpu")
            return "cpu"
        return ""

    def hits(self, used: Used) -> list[str]:
        """Limits that were reached at some moment, whatever the code made of it."""
        self._look_at_disk()
        if self._group and self._group.memory_refused():
            self._hits.add("memory")
        if used.cpu_s >= self._limits["cpu_s"]:
            self._hits.add("cpu")
        return sorted(self._hits)

    def peak(self, used: Used) -> int:
        """Peak memory in bytes: the largest sample, or the largest process where it was over too soon for one."""
        return max(self._peak, used.max_rss_bytes - self._max_rss_before, 0)

    def _filled(self, pids: list[str]) -> bool:
        """Whether the job has used up its disk in the host's file system, which others write to as well."""
        gone = self._free_before - _free_bytes(self._workspace)
        if gone <= self._limits["disk_bytes"]:
            return False
        disk: int = self._limits["disk_bytes"]
        written = sum(_field(_read(f"{pid}/io"), b"\nwrite_bytes:") for pid in ("self", *pids))
        return written > disk or gone > _CERTAINLY * disk

    def _cpu_now(self, pids: list[str]) -> float:
        if self._group:
            return self._group.cpu_s() - self._cpu_before
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        return sum(_cpu_s(pid) for pid in pids) + reaped.ru_utime + reaped.ru_stime

    def _look_at_disk(self) -> None:
        free = os.statvfs(self._disk)
        if free.f_bfree == 0 or free.f_ffree == 0:
            self._hits.add("disk")


def _read(path: str) -> bytes:
    try:
        with open(f"/proc/{path}", "rb") as source:
            return source.read()
    except OSError:  # it ended while we looked
        return b""


def _status_bytes(path: str, field: bytes) -> int:
    return _field_bytes(_read(path), field)


def _free_bytes(path: str) -> int:
    found = os.statvfs(path)
    return found.f_bfree * found.f_frsize


def _field_bytes(text: bytes, field: bytes) -> int:
    return _field(text, field) * 1024


def _field(text: bytes, field: bytes) -> int:
    at = text.find(field)
    return int(text[at + len(field) :].split(None, 1)[0]) if at >= 0 else 0


def _anonymous(pid: str) -> int:
    """Resident memory that no file backs, in bytes, and its page tables; pages shared with the template count."""
    status = _read(f"{pid}/status")
    return sum(_field_bytes(status, field) for field in (b"RssAnon:", b"RssShmem:", b"VmPTE:", b"VmSwap:"))


def _proportional(pid: str) -> int:
    """The same with each shared page counted once over all who share it; all of it where that cannot be read."""
    rollup = _read(f"{pid}/smaps_rollup")
    if not rollup:
        return _anonymous(pid)
    shares = sum(_field_bytes(rollup, field) for field in (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
    return shares + _status_bytes(f"{pid}/status", b"VmPTE:")


def _cpu_s(pid: str) -> float:
    fields = _read(f"{pid}/stat").rpartition(b")")[2].split()
    return sum(int(each) for each in fields[_UTIME : _CSTIME + 1]) / _TICKS if fields else 0.0


def _cpu_clock_s(pid: int) -> float:
    """The CPU clock of one live process (clock_getcpuclockid(3): the id is made of the pid)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0

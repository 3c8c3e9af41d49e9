"""What all processes of a box use together, read from its own /proc. Standard library only.

rlimits bind single processes; the tree is bound here, by process 1, which looks every 10 to 50 ms. Where a cgroup
holds the box as well, the kernel is exact and this is the second line.
"""

import os
import resource

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12  # fields of /proc/<pid>/stat after the command's closing bracket


class TreeWatch:
    """Samples a box. `limits` is `sandbox.contract.Limits` as a dict; `disk` is where the box's tmpfs is seen."""

    def __init__(self, limits: dict, disk: str) -> None:
        self._limits = limits
        self._disk = disk
        self._peak = 0
        self._hits: set[str] = set()
        # A fork of a template starts with the template's pages: shared, and not the job's doing.
        self._inherited = _anonymous("self")
        self._max_rss_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def data_in_use(self, language: str) -> int:
        """Bytes RLIMIT_DATA counts before the job does anything: the template's for Python, none after an exec."""
        return _status_bytes("self", b"VmData:") if language == "python" else 0

    def exceeded(self) -> str:
        """Look once; the name of the limit the tree is over, or ""."""
        pids = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        if len(pids) >= self._limits["processes"]:
            self._hits.add("processes")
        self._look_at_disk()
        memory = sum(_anonymous(pid) for pid in pids)
        if memory > self._limits["memory_bytes"]:
            memory = sum(_private(pid) for pid in pids)  # exact, and too slow to read every time
            if memory > self._limits["memory_bytes"]:
                self._peak = memory
                self._hits.add("memory")
                return "memory"
        self._peak = max(self._peak, memory - self._inherited)
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = sum(_cpu_s(pid) for pid in pids) + reaped.ru_utime + reaped.ru_stime
        if cpu > self._limits["cpu_s"]:
            self._hits.add("cpu")
            return "cpu"
        return ""

    def hits(self, used: resource.struct_rusage) -> list[str]:
        """Limits that were reached at some moment, whatever the code made of it."""
        self._look_at_disk()
        if used.ru_utime + used.ru_stime >= self._limits["cpu_s"]:
            self._hits.add("cpu")
        return sorted(self._hits)

    def peak(self, used: resource.struct_rusage) -> int:
        """Peak memory in bytes: the largest sample, or the largest process where it was over too soon for one."""
        return max(self._peak, used.ru_maxrss * 1024 - self._max_rss_before, 0)

    def _look_at_disk(self) -> None:
        free = os.statvfs(self._disk)
        if free.f_bfree == 0 or free.f_ffree == 0:
            self._hits.add("disk")


def _read(pid: str, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as source:
            return source.read()
    except OSError:  # it ended while we looked
        return b""


def _status_bytes(pid: str, field: bytes) -> int:
    text = _read(pid, "status")
    at = text.find(field)
    return int(text[at + len(field) :].split(None, 1)[0]) * 1024 if at >= 0 else 0


def _anonymous(pid: str) -> int:
    """Resident memory that no file backs, in bytes; pages shared with the template count."""
    fields = _read(pid, "statm").split()
    return (int(fields[1]) - int(fields[2])) * _PAGE + _status_bytes(pid, b"RssShmem:") if fields else 0


def _private(pid: str) -> int:
    """Memory that is this process's alone, in bytes, plus its share of shared anonymous pages."""
    text = _read(pid, "smaps_rollup")
    total = 0
    for field in (b"Private_Dirty:", b"Pss_Shmem:"):
        at = text.find(field)
        if at >= 0:
            total += int(text[at + len(field) :].split(None, 1)[0]) * 1024
    return total


def _cpu_s(pid: str) -> float:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS if fields else 0.0

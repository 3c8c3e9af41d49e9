"""Reads the memory, CPU time and writes of processes from /proc. Standard library only.

For a process that has ended, the functions return zeros or None.
"""

import contextlib
import errno
import os
import time
from collections.abc import Iterable
from typing import NamedTuple

PROC = "/proc"  # the folder of the caller's pid namespace; the functions also take that of another one
_CHUNK = 1 << 14
MOST_BYTES = 16 << 20  # read of one file, and of all lists of mappings; only these can be longer
TOO_MUCH = 1 << 62
_TICKS = os.sysconf("SC_CLK_TCK")
# Node 24 has 573 MB of VmData before it runs a line (measured). This is address space, not memory: an option limits
# Node's heap, and `sandbox.linux.watch` limits the memory that Node touches.
_V8_RESERVES = 640 << 20
_STACKS = 64 * (8 << 20)  # thread stacks of a shell's programs: 8 MiB each, hardly touched, but counted in full
# Fields of /proc/<pid>/stat after the closing bracket of the command.
_UTIME, _STIME, _CUTIME, _CSTIME, _STARTED = 11, 12, 13, 14, 19
_SHARED_NAMES = (b"/dev/zero (deleted)", b"[anon_shmem:")  # names of shared mappings without a file
_OFFSET, _INODE, _NAME = 2, 4, 5  # fields of a line of /proc/<pid>/maps


class MemoryReading(NamedTuple):
    """The memory of a process, in bytes.

    Attributes:
        own: Resident and not backed by a file, including page tables and swap.
        shared: Resident in shared memory.
        mapped: Mapped address space, touched or not.
        threads: The number of threads; 0 when the process is gone.
    """

    own: int
    shared: int
    mapped: int
    threads: int


class CpuReading(NamedTuple):
    """The CPU time of a process, in seconds.

    Attributes:
        own_s: CPU time of the process itself.
        children_s: CPU time of the children it has waited for.
        started: The start time, which distinguishes the process from a later one with the same pid.
    """

    own_s: float
    children_s: float
    started: bytes


def read(path: str, proc: str = PROC) -> bytes:
    """Return the contents of a file below /proc; b"" if it cannot be read, for example because the process is gone.

    Raises:
        OSError: There is no descriptor left to open it.
    """
    try:
        descriptor = os.open(f"{proc}/{path}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as problem:
        if problem.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return b""
    try:  # without `open`, whose buffering and checks cost more than the read
        parts, size = [os.read(descriptor, _CHUNK)], 0
        while parts[-1] and size < MOST_BYTES:
            size += len(parts[-1])
            parts.append(os.read(descriptor, _CHUNK))
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def at_start() -> tuple[int, int]:
    """Return this process's own memory (see `MemoryReading`) and its peak memory, in bytes, before it runs a job."""
    return memory("self").own, status_bytes("self/status", b"VmHWM:")


def data_in_use() -> dict[str, int]:
    """Return, for each language, the bytes that RLIMIT_DATA counts although a job does not use them.

    For Python, this is the template's own memory. For Node, it is the address space that V8 reserves, and for Bash, the
    thread stacks of the programs that it runs.
    """
    return {"python": status_bytes("self/status", b"VmData:"), "node": _V8_RESERVES, "bash": _STACKS}


def memory(pid: str, proc: str = PROC) -> MemoryReading:
    """Return the memory of a process, from its status file. Pages that it shares with others count in full."""
    status = read(f"{pid}/status", proc)
    threads = _field(status, b"Threads:")
    if _hides_memory(status):
        status = read(f"{_thread_with_memory(pid, proc)}/status", proc)
    own = sum(field_bytes(status, field) for field in (b"RssAnon:", b"VmPTE:", b"VmSwap:"))
    return MemoryReading(own, field_bytes(status, b"RssShmem:"), field_bytes(status, b"VmSize:"), threads)


def proportional(pid: str, proc: str = PROC) -> MemoryReading:
    """Return the memory of a process, with each shared page divided among the processes that share it.

    Where the kernel does not provide that number, shared pages count in full.
    """
    plain, shown = memory(pid, proc), _thread_with_memory(pid, proc)
    rollup = read(f"{shown}/smaps_rollup", proc)
    if not rollup:
        return plain
    own = sum(field_bytes(rollup, field) for field in (b"Pss_Anon:", b"SwapPss:"))
    own += status_bytes(f"{shown}/status", b"VmPTE:", proc)
    return MemoryReading(own, field_bytes(rollup, b"Pss_Shmem:"), plain.mapped, plain.threads)


def shared_mappings(pids: Iterable[str], proc: str = PROC) -> int:
    """Return the size in bytes of the shared memory that these processes map, touched or not, unless a file backs it.

    Memory that several of the processes map counts once. Return `TOO_MUCH` if the lists of mappings are too long to
    read.
    """
    sizes: dict[bytes, int] = {}
    left = MOST_BYTES
    for pid in pids:
        text = read(f"{_thread_with_memory(pid, proc)}/maps", proc)
        left -= len(text)
        if left <= 0:
            return TOO_MUCH
        for line in text.split(b"\n"):
            fields = line.split(None, _NAME)
            if len(fields) > _NAME and fields[_NAME].startswith(_SHARED_NAMES):
                first, _, last = fields[0].partition(b"-")
                end = int(fields[_OFFSET], 16) + int(last, 16) - int(first, 16)
                sizes[fields[_INODE]] = max(sizes.get(fields[_INODE], 0), end)
    return sum(sizes.values())


def cpu(pid: str, proc: str = PROC) -> CpuReading | None:
    """Return the CPU time that a process has used; None if the process is gone."""
    fields = read(f"{pid}/stat", proc).rpartition(b")")[2].split()
    if not fields:
        return None
    own = int(fields[_UTIME]) + int(fields[_STIME])
    children = int(fields[_CUTIME]) + int(fields[_CSTIME])
    return CpuReading(own / _TICKS, children / _TICKS, fields[_STARTED])


def cpu_clock_s(pid: int) -> float:
    """Return the CPU time of a live process in seconds (clock_getcpuclockid(3): the clock's id comes from the pid)."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)
    return 0.0


def written_bytes(pid: str, proc: str = PROC) -> int | None:
    """Return the bytes that a process and the children it waited for have written.

    This is the larger of the bytes passed to `write` and the bytes written to disk: only the former include
    writes to a file system in memory, and only the latter include writes to a mapped file. Return None if the counters
    cannot be read, for example because the process runs an unreadable program.
    """
    try:
        with open(f"{proc}/{pid}/io", "rb", buffering=0) as file:
            text = file.read()
    except PermissionError:
        return None
    except OSError:
        return 0
    return max(_field(text, b"wchar:"), _field(text, b"write_bytes:"))


def status_bytes(path: str, field: bytes, proc: str = PROC) -> int:
    """Return a field of a status file, converted from KiB to bytes."""
    return field_bytes(read(path, proc), field)


def available_share() -> float:
    """Return the share of the machine's memory that is available for new processes; 1.0 if the kernel does not say."""
    text = read("meminfo")
    total = _field(text, b"MemTotal:")
    return _field(text, b"MemAvailable:") / total if total else 1.0


def free_bytes(path: str) -> int:
    """Return the free space, in bytes, of the file system that contains `path`."""
    found = os.statvfs(path)
    return found.f_bfree * found.f_frsize


def _hides_memory(status: bytes) -> bool:
    """Return whether the main thread has ended before others: its files then no longer show the process's memory."""
    return not _field(status, b"VmSize:") and _field(status, b"Threads:") > 1


def _thread_with_memory(pid: str, proc: str) -> str:
    """Return the folder, below `proc`, of the process or, if its main thread has ended, of another of its threads."""
    if _hides_memory(read(f"{pid}/status", proc)):
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"{proc}/{pid}/task"):
                if thread != pid:
                    return f"{pid}/task/{thread}"
    return pid


def field_bytes(text: bytes, field: bytes) -> int:
    """Return a field of the text of a status file, converted from KiB to bytes; 0 if it is missing."""
    return _field(text, field) * 1024


def _field(text: bytes, field: bytes) -> int:
    """Return the number after `field` at the beginning of a line; 0 if there is none.

    The text can contain what code in the box has chosen, such as the name of a process, but not at the beginning of a
    line: the kernel escapes line breaks there.
    """
    at = 0 if text.startswith(field) else text.find(b"\n" + field) + 1
    return int(text[at + len(field) :].split(None, 1)[0]) if text.startswith(field, at) else 0

"""What /proc tells of a process and its memory, time and writing. Standard library only.

A process that ended while we looked reads as nothing.
"""

import contextlib
import os
import time
from collections.abc import Iterable
from typing import NamedTuple

_CHUNK = 1 << 14
_TICKS = os.sysconf("SC_CLK_TCK")
# Node 24 has 573 MB of VmData before its first line (measured): address space, not memory. Its heap has a switch of
# its own, and what it touches is bounded by watching.
_V8_RESERVES = 640 << 20
_STACKS = 64 * (8 << 20)  # of the threads of what a shell starts: 8 MiB each, hardly touched, and counted whole
# Fields of /proc/<pid>/stat after the command's closing bracket.
_UTIME, _STIME, _CUTIME, _CSTIME, _STARTED = 11, 12, 13, 14, 19
_SHARED_NAMES = (b"/dev/zero (deleted)", b"[anon_shmem:")  # of a mapping that is shared and has no file
_OFFSET, _INODE, _NAME = 2, 4, 5  # fields of a line of /proc/<pid>/maps


class Memory(NamedTuple):
    """In bytes. own: resident, backed by no file, with page tables and swap. shared: resident, in shared memory.

    mapped: of address space, whether touched or not. threads: how many the process has; 0 when it is gone.
    """

    own: int
    shared: int
    mapped: int
    threads: int


class Cpu(NamedTuple):
    """In seconds. children_s: of those it has waited for. started: tells it from a later process with its pid."""

    own_s: float
    children_s: float
    started: bytes


def read(path: str) -> bytes:
    """A file below /proc, whole; b"" when it is gone."""
    try:
        descriptor = os.open(f"/proc/{path}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:  # without `open`, whose buffers and questions cost more than the reading
        parts = [os.read(descriptor, _CHUNK)]
        while parts[-1]:
            parts.append(os.read(descriptor, _CHUNK))
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def data_in_use() -> dict[str, int]:
    """By language, the bytes RLIMIT_DATA counts before a job does anything: the template's, V8's reservation."""
    return {"python": status_bytes("self/status", b"VmData:"), "node": _V8_RESERVES, "bash": _STACKS}


def memory(pid: str) -> Memory:
    """As its status has it; a page that several processes share counts for each."""
    status = read(f"{pid}/status")
    own = sum(_field_bytes(status, field) for field in (b"RssAnon:", b"VmPTE:", b"VmSwap:"))
    threads = _field(status, b"\nThreads:")
    return Memory(own, _field_bytes(status, b"RssShmem:"), _field_bytes(status, b"VmSize:"), threads)


def proportional(pid: str) -> Memory:
    """The same with each shared page counted once over all who share it; all of it where that cannot be read."""
    plain = memory(pid)
    rollup = read(f"{pid}/smaps_rollup")
    if not rollup:
        return plain
    own = sum(_field_bytes(rollup, field) for field in (b"Pss_Anon:", b"SwapPss:"))
    own += status_bytes(f"{pid}/status", b"VmPTE:")
    return Memory(own, _field_bytes(rollup, b"Pss_Shmem:"), plain.mapped, plain.threads)


def shared_mappings(pids: Iterable[str]) -> int:
    """Bytes of all shared memory without a file that these processes map, touched or not; each piece counts once."""
    sizes: dict[bytes, int] = {}
    for pid in pids:
        for line in read(f"{pid}/maps").splitlines():
            fields = line.split(None, _NAME)
            if len(fields) > _NAME and fields[_NAME].startswith(_SHARED_NAMES):
                first, _, last = fields[0].partition(b"-")
                end = int(fields[_OFFSET], 16) + int(last, 16) - int(first, 16)
                sizes[fields[_INODE]] = max(sizes.get(fields[_INODE], 0), end)
    return sum(sizes.values())


def cpu(pid: str) -> Cpu | None:
    """What it has used; None when it is gone."""
    fields = read(f"{pid}/stat").rpartition(b")")[2].split()
    if not fields:
        return None
    own = int(fields[_UTIME]) + int(fields[_STIME])
    children = int(fields[_CUTIME]) + int(fields[_CSTIME])
    return Cpu(own / _TICKS, children / _TICKS, fields[_STARTED])


def cpu_clock_s(pid: int) -> float:
    """The CPU clock of one live process (clock_getcpuclockid(3): the id is made of the pid)."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)
    return 0.0


def written_bytes(pid: str) -> int | None:
    """Bytes that it, and the children it waited for, passed to `write` or had written to disks, whichever is more.

    The former is all that is counted for a file system in memory, the latter for a mapped file. None when it is not to
    be seen: a process that may not be looked at, as one that runs an unreadable program.
    """
    try:
        with open(f"/proc/{pid}/io", "rb", buffering=0) as file:
            text = b"\n" + file.read()
    except PermissionError:
        return None
    except OSError:
        return 0
    return max(_field(text, b"\nwchar:"), _field(text, b"\nwrite_bytes:"))


def status_bytes(path: str, field: bytes) -> int:
    """A field of a status file, which gives it in KiB."""
    return _field_bytes(read(path), field)


def free_bytes(path: str) -> int:
    """Room left in the file system of `path`."""
    found = os.statvfs(path)
    return found.f_bfree * found.f_frsize


def _field_bytes(text: bytes, field: bytes) -> int:
    return _field(text, field) * 1024


def _field(text: bytes, field: bytes) -> int:
    at = text.find(field)
    return int(text[at + len(field) :].split(None, 1)[0]) if at >= 0 else 0

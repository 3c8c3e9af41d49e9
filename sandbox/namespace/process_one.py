"""The native process 1 of a box: its program, the orders that it takes, and its reports. Standard library only.

The numbers and structures must agree with `native/box_init.c`.
"""

import os
import socket
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path

_PROGRAM = str(Path(__file__).parent / "native" / "box_init")
VARIABLE, IN_PYTHON = "KNACKBOX_PROCESS_1", "python"  # this value selects process 1 in Python
_NO_ARGUMENTS = 2  # the exit code of the program without arguments
_RUN_S = 10.0
_ORDER = struct.Struct("=Ii6Q")
_REPORT = struct.Struct("=Ii2Q3q128s3072s512s512s")
_MOST_DESCRIPTORS = 4  # when a box is ready: see `sandbox.namespace.empty_boxes.EmptyBox`


class OrderKind(IntEnum):
    """What process 1 can be asked to do, and what it reports."""

    READY = ord("r")
    FAILED = ord("f")
    GROUP = ord("g")
    START = ord("s")
    SIGNAL = ord("n")
    DEADLINE = ord("d")
    STOP = ord("p")
    KILL = ord("k")


@dataclass(frozen=True, slots=True)
class BoxReport:
    """What process 1 reports. The texts are those of the kernel, as bytes.

    Attributes:
        kind: The order that is answered, or `OrderKind.READY` or `OrderKind.FAILED`.
        error: An errno; 0 if the order was carried out.
        full: Whether the box's tmpfs has no free space or no free inodes.
        reaped_cpu_s: CPU time of the orphans that process 1 has reaped, and of the children that they waited for.
        reaped_rss_bytes: Peak memory of the largest of them.
        load: /proc/loadavg, which names the last pid given out in the box; for `OrderKind.FAILED`, what failed.
        status: /proc/<pid>/status of the worker.
        cpu: The CPU time in the control group's file; b"" without a group.
        memory: The control group's memory events; b"" without a group.
    """

    kind: int
    error: int
    full: bool
    reaped_cpu_s: float
    reaped_rss_bytes: int
    load: bytes
    status: bytes
    cpu: bytes
    memory: bytes


def is_python_chosen() -> bool:
    """Return whether the environment variable `VARIABLE` selects process 1 in Python."""
    return os.environ.get(VARIABLE) == IN_PYTHON


def program() -> str:
    """Return the path of the program; "" if it was not built, cannot be run, or is not wanted.

    It is not wanted if process 1 in Python was chosen.
    """
    if is_python_chosen() or not os.access(_PROGRAM, os.X_OK):
        return ""
    return _PROGRAM if _runs(_PROGRAM, Path(_PROGRAM).stat().st_mtime_ns) else ""


@lru_cache(maxsize=4)
def _runs(program: str, _changed: int) -> bool:
    """Return whether this machine can run the program. It refuses to do anything without arguments."""
    try:
        return subprocess.run([program], check=False, timeout=_RUN_S).returncode == _NO_ARGUMENTS
    except (OSError, subprocess.TimeoutExpired):  # such as one for another architecture
        return False


def order(kind: OrderKind, number: int = 0, values: Sequence[int] = ()) -> bytes:
    """Return the bytes of an order. The meaning of the numbers depends on the kind (`struct order`)."""
    return _ORDER.pack(kind, number, *values, *(0 for _ in range(6 - len(values))))


def receive(line: socket.socket) -> tuple[BoxReport, list[int]]:
    """Receive a report, and the descriptors that came with it.

    Raises:
        EOFError: Process 1 has ended.
        OSError: Nothing can be received; a BlockingIOError if there is no report yet.
    """
    data, descriptors, _, _ = socket.recv_fds(line, _REPORT.size, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    if len(data) != _REPORT.size:
        raise EOFError
    kind, error, blocks, inodes, user_us, system_us, rss_kib, *texts = _REPORT.unpack(data)
    load, status, cpu, memory = (text.rstrip(b"\0") for text in texts)
    full, cpu_s = not (blocks and inodes), (user_us + system_us) / 1e6
    return BoxReport(kind, error, full, cpu_s, rss_kib * 1024, load, status, cpu, memory), descriptors

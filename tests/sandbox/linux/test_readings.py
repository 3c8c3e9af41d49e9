"""What /proc says about a process, which may try to hide its memory."""

import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sandbox.linux import readings

pytestmark = [pytest.mark.spec("BOX-3"), pytest.mark.slow]
MB = 1 << 20
_EXIT = {"x86_64": 60, "aarch64": 93}[platform.machine()]  # the system call `exit`, which ends one thread
# Allocates 50 MB for itself and 60 MB that it could share, and then waits.
_ALLOCATE = """
import ctypes, mmap, sys, threading, time
def allocate():
    global own, shared
    own = bytearray(b"x") * (50 << 20)
    shared = mmap.mmap(-1, 60 << 20)
    for at in range(0, len(shared), 4096): shared[at] = 1
    print("ready", flush=True)
    time.sleep(60)
"""
_WAYS = {
    "in the main thread": "allocate()",
    "after its main thread has ended": f"threading.Thread(target=allocate).start()\nctypes.CDLL(None).syscall({_EXIT}, 0)",
    "named like a field": "ctypes.CDLL(None).prctl(15, b'RssAnon: 0', 0, 0, 0)\nallocate()",
    "named like two fields": "ctypes.CDLL(None).prctl(15, b'VmSize:\\nThreads', 0, 0, 0)\nallocate()",
}


@contextmanager
def started(code: str) -> Iterator[str]:
    """Start a process with this code, wait until it has printed a line, and yield its pid."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield str(process.pid)
        finally:
            process.kill()


@pytest.mark.parametrize("way", _WAYS)
def test_the_memory_of_a_process_is_counted_however_it_is_held(way: str) -> None:
    """The attempt: memory that the files of the main thread do not show, or that a name pretends to be."""
    with started(f"{_ALLOCATE}\n{_WAYS[way]}") as pid:
        for found in (readings.memory(pid), readings.proportional(pid)):
            assert 50 * MB <= found.own < 90 * MB
            assert 60 * MB <= found.shared < 70 * MB
            assert found.mapped > 110 * MB
        assert 60 * MB <= readings.shared_mappings([pid]) < 70 * MB

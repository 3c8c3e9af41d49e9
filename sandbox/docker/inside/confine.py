"""The worker of a container: drops the remaining privileges, waits for the job and becomes it.

The worker is forked ahead of the job. The container has already removed most privileges (capabilities, network, write
access to the root). This module adds a list of refused system calls, Landlock where available, and protection of
process 1. It works with any OCI runtime, even with gVisor, which has no Landlock, no complete close_range, and no
unnamed files. Standard library only.
"""

import contextlib
import errno
import fcntl
import os
import resource
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from sandbox import worker
from sandbox.linux import landlock, seccomp, syscalls, system_calls
from sandbox.linux.readings import data_in_use
from sandbox.linux.worker_process import take_stdin, wait_for_job
from sandbox.wire.results import ResultChannel

TMP, WORK, SHM = "/tmp", "/work", "/dev/shm"  # noqa: S108  (in the container)
_WRITABLE = (TMP, WORK, SHM, "/dev/pts", "/dev/null", "/dev/zero", "/dev/full", "/dev/tty")
_RESULT_FD, _JOB_FD = 3, 4
_HIGH = 64  # above all descriptor numbers assigned below
# An empty filter (one `return ALLOW`), for machines that the table of system calls does not cover.
_NO_FILTER = struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)


@dataclass(frozen=True)
class Confined:
    """A confined worker that waits for its job. `out` and `err` are non-blocking pipes with its output."""

    pid: int
    job: int
    results: ResultChannel
    out: int
    err: int
    landlock_abi: int

    def hand_over(self, frame: bytes) -> None:
        """Send the worker the job's frame through the descriptor `job`, and close the descriptor."""
        with contextlib.suppress(BrokenPipeError):  # the worker died while it was waiting; its exit status says how
            worker.write_all(self.job, frame)
        os.close(self.job)


def start() -> Confined:
    """Fork the worker.

    Raises:
        OSError: The worker cannot be forked or confined.
    """
    abi = landlock.abi()
    rules = landlock.ruleset(abi, _WRITABLE) if abi else -1
    filter_ = seccomp.program() if system_calls.supported() else _NO_FILTER
    job, job_write = os.pipe2(os.O_CLOEXEC)
    results = ResultChannel()
    out, out_write = _read_without_blocking()
    err, err_write = _read_without_blocking()
    nothing = os.open("/dev/null", os.O_RDONLY)
    given = (nothing, out_write, err_write, results.worker_end, job)
    with _first_to_be_killed():
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)  # the worker has the same user id: keep it out of /proc/1
        pid = os.fork()
        if pid == 0:
            _become(given, rules, filter_)
    for descriptor in (*given, *([rules] if rules >= 0 else [])):
        os.close(descriptor)
    results.accept_from(pid)
    return Confined(pid, job_write, results, out, err, abi)


def _read_without_blocking() -> tuple[int, int]:
    read, write = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(read, False)
    return read, write


@contextlib.contextmanager
def _first_to_be_killed() -> Iterator[None]:
    """When memory runs out, make the kernel first kill processes forked in this block, and only then process 1."""
    try:
        score = os.open("/proc/self/oom_score_adj", os.O_RDWR)
    except FileNotFoundError:  # the host's kernel sees gVisor as a single process
        yield
        return
    before = os.read(score, 16).strip()
    os.write(score, b"1000")
    yield
    with contextlib.suppress(PermissionError):  # Docker allows no lower score, so process 1 keeps the worker's score
        os.write(score, before)
    os.close(score)


def _become(given: tuple[int, ...], rules: int, filter_: bytes) -> NoReturn:
    """Turn the forked child into the worker. Never returns."""
    try:
        high = [fcntl.fcntl(d, fcntl.F_DUPFD, _HIGH) for d in (*given, *([rules] if rules >= 0 else []))]
        for target, source in enumerate(high):
            os.dup2(source, target, inheritable=target < _RESULT_FD)
        os.closerange(len(high), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        os.setsid()
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
        worker.restore_signals()
        seccomp.apply(filter_)
        if rules >= 0:
            landlock.restrict(_JOB_FD + 1)
        worker.rehearse()
        in_use = data_in_use()
        job, body = wait_for_job(_JOB_FD)
        if job["mount"] and system_calls.supported():
            seccomp.apply(seccomp.program_for_a_workspace())
        if job["mount"] and rules >= 0:
            landlock.restrict(landlock.sockets_only_in((TMP, SHM), landlock.abi()))
        _set_limits(job["limits"], in_use[job["language"]])
        worker.run(job, _take_stdin(body, job["stdin"]), _RESULT_FD)
    except BaseException as problem:  # noqa: BLE001  (a child must never return into its parent's code)
        with contextlib.suppress(OSError):
            failure = {"end": worker.end_of(problem), "exit_code": 1, "error": worker.describe(problem)}
            worker.write_all(_RESULT_FD, worker.pack(failure))
    finally:
        os._exit(1)


def _set_limits(limits: worker.Message, data_in_use: int) -> None:
    """Set this process's resource limits (setrlimit(2)).

    Raises:
        ValueError: One of the job's limits could not be set.
    """
    with contextlib.suppress(ValueError):  # gVisor rejects the limit on message queues, which is set last
        worker.set_fixed_limits()
    worker.set_limits(limits, data_in_use=data_in_use, processes_in_use=1)


def _take_stdin(body: bytes, size: int) -> bytes:
    """Make the last `size` bytes of the body readable as descriptor 0. Return the rest, which are the job's files."""
    if not size:
        return body
    return take_stdin(_unnamed_file(), body, size)


def _unnamed_file() -> int:
    try:
        return os.open(TMP, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError as problem:
        if problem.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise
    path = f"{TMP}/.stdin"
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.unlink(path)
    return descriptor

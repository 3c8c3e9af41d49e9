"""The worker process of a job: waits for the job, gives up every privilege, and runs the job. Standard library only.

The worker is forked before the job arrives, so that no job waits for the fork.
"""

import contextlib
import fcntl
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from sandbox import worker
from sandbox.landlock_only.family import die_with_parent
from sandbox.linux import landlock, seccomp, syscalls
from sandbox.linux.readings import data_in_use
from sandbox.linux.worker_process import WorkerProcess, take_stdin, wait_for_job
from sandbox.wire.results import ResultChannel

_RESULT_FD, _JOB_FD, _RULES_FD = 3, 4, 5
_HIGH = 64  # above all descriptor numbers assigned below
_NO_LIMIT = 1 << 20
_LEEWAY = 64  # tasks that the same user may start outside of the job in the meantime


@dataclass(frozen=True)
class LandlockFilters:
    """Assembled seccomp filters.

    Attributes:
        always: `sandbox.linux.seccomp.program`, for every worker.
        without_namespaces: `filters.without_namespaces`, for every worker.
        own_files: `filters.with_own_files`, for a worker whose user owns files outside of the job's folder.
    """

    always: bytes
    without_namespaces: bytes
    own_files: bytes


@dataclass(frozen=True)
class LandlockConfinement:
    """The filters and the Landlock ruleset (`rules`, a descriptor) of a worker.

    The process that created `rules` adds the job's paths before it sends the job.
    """

    filters: LandlockFilters
    rules: int


def become(uid: int, gid: int) -> None:
    """Change permanently to an unprivileged user. A process that is not root only drops its capabilities."""
    if os.geteuid() == 0:
        syscalls.drop_bounding_set()
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    syscalls.drop_capabilities()


def start(confinement: LandlockConfinement, out: int, err: int) -> WorkerProcess:
    """Fork the worker. `out` and `err` are its output descriptors, which are closed in this process."""
    job_read, job_write = os.pipe2(os.O_CLOEXEC)
    results = ResultChannel()
    given = (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), out, err, results.worker_end, job_read)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become_worker(confinement, given, parent)
    for descriptor in given:
        os.close(descriptor)
    results.accept_from(pid)
    return WorkerProcess(pid, job_write, results)


def _become_worker(confinement: LandlockConfinement, given: tuple[int, ...], parent: int) -> NoReturn:
    """Turn the forked child into the worker. Never returns."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        high = [fcntl.fcntl(d, fcntl.F_DUPFD, _HIGH) for d in (*given, confinement.rules)]
        for target, source in enumerate(high):
            os.dup2(source, target, inheritable=target < _RESULT_FD)
        syscalls.close_from(len(high))
        os.setsid()
        worker.restore_signals()
        worker.set_fixed_limits()
        die_with_parent(parent, signal.SIGKILL)
        worker.rehearse()
        in_use = data_in_use()
        job, body = wait_for_job(_JOB_FD)
        # A user id that is reserved for this job has only two processes: this one and its parent.
        others = 1 if job["nobodys"] else _tasks_of_the_machine() + _LEEWAY
        become(*job["user"])
        die_with_parent(parent, signal.SIGKILL)  # again, because the change of user has cleared it
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
        os.umask(0o077)
        body = _take_stdin(job["tmp"], body, job["stdin"])
        landlock.restrict(_RULES_FD)
        filters = confinement.filters
        for program in (filters.always, filters.without_namespaces, *([] if job["nobodys"] else [filters.own_files])):
            seccomp.apply(program)
        worker.set_limits(job["limits"], data_in_use=in_use[job["language"]], processes_in_use=others)
        worker.run(job, body, _RESULT_FD)
    except BaseException as problem:  # noqa: BLE001  (a child must never return into its parent's code)
        with contextlib.suppress(OSError):
            failure = {"end": worker.end_of(problem), "exit_code": 1, "error": worker.describe(problem)}
            worker.write_all(_RESULT_FD, worker.pack(failure))
    finally:
        os._exit(1)


def _tasks_of_the_machine() -> int:
    """Return the number of tasks (threads) on the machine, since the job's user cannot have more than that.

    It is added to the process limit, because the kernel counts all tasks of the user. The limit only has to keep a fork
    bomb small enough for `FamilyWatch` to find and kill it in time.
    """
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return _NO_LIMIT


def _take_stdin(folder: str, body: bytes, size: int) -> bytes:
    """Make the last `size` bytes of the body readable as descriptor 0. Return the rest, which are the job's files."""
    if not size:
        return body
    return take_stdin(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600), body, size)

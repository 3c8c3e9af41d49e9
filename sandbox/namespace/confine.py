"""The worker process of a box: gives up every privilege, waits for the job, and runs it.

Process 1 forks the worker before the job arrives, so that no job waits for the confinement. Standard library only.
"""

import contextlib
import fcntl
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from sandbox import worker
from sandbox.linux import landlock, seccomp, syscalls
from sandbox.linux.cgroups import Group
from sandbox.linux.readings import at_start, data_in_use
from sandbox.linux.worker_process import WorkerProcess, take_stdin, wait_for_job
from sandbox.wire import paths
from sandbox.wire.results import ResultChannel

_RESULT_FD, _JOB_FD, _RULES_FD = 3, 4, 5
_HIGH = 64  # above all descriptor numbers assigned below


@dataclass(frozen=True)
class NamespaceFilters:
    """Assembled seccomp filters: one for every worker, and an additional one for a worker that sees a workspace."""

    always: bytes
    with_workspace: bytes


@dataclass(frozen=True)
class NamespaceConfinement:
    """What confines a worker.

    Attributes:
        filters: The seccomp filters.
        landlock_abi: The version of Landlock; 0 if there is none.
        rules: The descriptor of a Landlock ruleset; -1 without Landlock.
        group: The control group of the worker and everything it starts.
    """

    filters: NamespaceFilters
    landlock_abi: int
    rules: int
    group: Group | None


def start(confinement: NamespaceConfinement, out: int, err: int, fork: Callable[[], int]) -> WorkerProcess:
    """Fork the worker. This process's copies of the two descriptors are closed."""
    job_read, job_write = os.pipe2(os.O_CLOEXEC)
    results = ResultChannel()
    nothing = os.open("/dev/null", os.O_RDONLY)
    given = (nothing, out, err, results.worker_end, job_read)
    pid = fork()
    if pid == 0:
        become(confinement, given)
    for descriptor in given:
        os.close(descriptor)
    results.accept_from(pid)
    return WorkerProcess(pid, job_write, results)


def become(confinement: NamespaceConfinement, given: tuple[int, ...], *, announced: bool = False) -> NoReturn:
    """Become the worker, in a new process. Never returns.

    Args:
        confinement: What confines the worker.
        given: The descriptors of stdin, stdout, stderr, of the channel for the result, and of the job.
        announced: Whether to report, before waiting for the job, what this process has used until then. The report also
            tells the receiver the worker's pid.
    """
    result = given[_RESULT_FD]
    try:
        if confinement.group:
            confinement.group.join()
        # After joining, because the current group becomes the namespace's root.
        syscalls.unshare(syscalls.CLONE_NEWCGROUP)
        _keep_only((*given, confinement.rules) if confinement.rules >= 0 else given)
        result = _RESULT_FD
        os.setsid()
        syscalls.drop_capabilities()
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
        worker.restore_signals()
        worker.set_fixed_limits()
        seccomp.apply(confinement.filters.always)
        if not readable(_JOB_FD):  # otherwise the job has already arrived
            worker.rehearse()
        in_use = data_in_use()
        if announced:
            _announce()
        job, body = wait_for_job(_JOB_FD)
        if job["mount"]:
            seccomp.apply(confinement.filters.with_workspace)
        if confinement.rules >= 0:
            allowed = landlock.workspace_access if job["mount"] else landlock.write_access
            landlock.allow(_RULES_FD, paths.WORK, allowed(confinement.landlock_abi))
            landlock.restrict(_RULES_FD)
        worker.set_limits(job["limits"], data_in_use=in_use[job["language"]], processes_in_use=1)
        worker.run(job, _take_stdin(body, job["stdin"]), _RESULT_FD)
    except BaseException as problem:  # noqa: BLE001  (a child must never return into its parent's code)
        with contextlib.suppress(OSError):
            failure = {"end": worker.end_of(problem), "exit_code": 1, "error": worker.describe(problem)}
            worker.write_all(result, worker.pack(failure))
    finally:
        os._exit(1)


# The next two are functions so that the frames above a job's code hold no values that differ between boxes. From such
# values, a skill could tell that it is being proved.


def _keep_only(given: tuple[int, ...]) -> None:
    """Move these descriptors to the numbers from 0 on, and close all others."""
    high = [fcntl.fcntl(each, fcntl.F_DUPFD, _HIGH) for each in given]
    for target, source in enumerate(high):
        os.dup2(source, target, inheritable=target < _RESULT_FD)
    syscalls.close_from(len(high))


def _announce() -> None:
    """Report what this process has used until now. The report also tells the receiver the worker's pid."""
    own, peak = at_start()
    ready = {"kind": "ready", "cpu_s": time.process_time(), "own_bytes": own, "peak_bytes": peak}
    worker.write_all(_RESULT_FD, worker.pack(ready))


def readable(descriptor: int, wait_s: float = 0.0) -> bool:
    """Wait until there is data to read or the other end is closed; return False if the time runs out first."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(wait_s * 1000))


def _take_stdin(body: bytes, size: int) -> bytes:
    """Make the end of the body readable as standard input; return the rest, which contains the job's files."""
    if not size:
        return body
    return take_stdin(os.open(paths.TMP, os.O_TMPFILE | os.O_RDWR, 0o600), body, size)

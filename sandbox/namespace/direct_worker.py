"""Forks a worker into an empty box, which costs one fork of the template for a whole box. Standard library only."""

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from sandbox import worker
from sandbox.linux import landlock, syscalls
from sandbox.linux.cgroups import Group
from sandbox.namespace import confine, empty_boxes, process_one, rootfs
from sandbox.namespace.box import WRITABLE
from sandbox.namespace.empty_boxes import EmptyBox
from sandbox.namespace.process_one import OrderKind

_FIRST_TO_BE_KILLED = b"1000"  # the highest oom_score_adj


@dataclass(frozen=True)
class DirectPlan:
    """What each worker of a template is created with, the same for all of them.

    Attributes:
        filters: The assembled seccomp filters.
        landlock_abi: The version of Landlock; 0 if there is none.
        own_pids: A descriptor of the template's pid namespace.
        fork: Forks this process, as `os.fork` does.
    """

    filters: confine.NamespaceFilters
    landlock_abi: int
    own_pids: int
    fork: Callable[[], int]


def fork_into(box: EmptyBox, plan: DirectPlan, given: tuple[int, int], group: Group | None) -> int:
    """Fork the worker of a box. It isolates itself, announces itself on its channel, and waits for a job there.

    Args:
        box: The box, which has no worker.
        plan: What the worker is created with.
        given: The descriptors of its stdout and stderr.
        group: The control group of the box; None without control groups.

    Returns:
        The pid of the worker, a child of this process.

    Raises:
        OSError: The worker cannot be forked.
    """
    if group:
        socket.send_fds(box.line, [process_one.order(OrderKind.GROUP, len(group.files))], group.files)
    syscalls.setns(box.pidfd, syscalls.CLONE_NEWPID)
    try:
        pid = plan.fork()
        if pid == 0:
            _become(box, plan, given, group)
    finally:
        syscalls.setns(plan.own_pids, syscalls.CLONE_NEWPID)
    return pid


def _become(box: EmptyBox, plan: DirectPlan, given: tuple[int, int], group: Group | None) -> NoReturn:
    """Become the worker, in the new process. Never returns."""
    try:
        _enter(box)
        confine.become(_confinement(plan, group), _descriptors(box, given), announced=True)
    except BaseException as problem:  # noqa: BLE001  (must not return into the template's code)
        with contextlib.suppress(OSError):
            failure = {"kind": "failed", "why": f"{type(problem).__name__}: {problem}"[:1000]}
            worker.write_all(box.channel[1], worker.pack(failure))
    finally:
        os._exit(1)


# As in `sandbox.namespace.confine`, these are functions so that no frame above a job's code holds their values.


def _enter(box: EmptyBox) -> None:
    """Join the box's namespaces as its user, and become the first that the kernel kills when memory runs out."""
    score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)  # here, /proc is still writable
    os.write(score, _FIRST_TO_BE_KILLED)
    empty_boxes.enter(box)
    with contextlib.suppress(PermissionError):  # the user namespace of an ordinary user may not change groups
        os.setgroups([])
    os.setresgid(rootfs.BOX_ID, rootfs.BOX_ID, rootfs.BOX_ID)
    os.setresuid(rootfs.BOX_ID, rootfs.BOX_ID, rootfs.BOX_ID)
    os.umask(0o077)
    syscalls.drop_bounding_set()


def _confinement(plan: DirectPlan, group: Group | None) -> confine.NamespaceConfinement:
    rules = landlock.ruleset(plan.landlock_abi, WRITABLE) if plan.landlock_abi else -1
    return confine.NamespaceConfinement(plan.filters, plan.landlock_abi, rules, group)


def _descriptors(box: EmptyBox, given: tuple[int, int]) -> tuple[int, ...]:
    """Return the descriptors of stdin, stdout, stderr, of the channel for the result, and of the job."""
    return (os.open("/dev/null", os.O_RDONLY), *given, box.channel[1], box.channel[1])

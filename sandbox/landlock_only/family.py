"""A process and all it ever starts, which can be killed as one: a pid namespace's `kill(-1)` without the namespace.

Landlock's signal scope lets a process signal only those bound by the same rules or by rules nested in them. Who binds
itself and then calls ``kill(-1)`` therefore reaches its descendants and nobody else, however they have daemonised, and
the kernel does it in one go, so that no fork escapes between two looks. As a child subreaper it also inherits every
orphan, and having no child left means that nothing is left. Standard library only.
"""

import contextlib
import os
import signal
import time
from typing import NoReturn, Self

from sandbox.landlock_only import rules
from sandbox.linux import landlock, syscalls

_PR_SET_CHILD_SUBREAPER = 36
_AGAIN_S = 0.001


class Family:
    """Held by its head, the process that called `found`; its forks must not use it."""

    def __init__(self, head: int) -> None:
        self._head = head

    @classmethod
    def found(cls) -> Self:
        """Bind this process for good. Raises OSError unless everybody else is out of its reach."""
        outsider = os.getppid()
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        syscalls.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        landlock.restrict(rules.of_family())
        try:
            os.kill(outsider, 0)
        except PermissionError:
            return cls(os.getpid())
        raise OSError("the kernel does not keep signals inside a Landlock domain")

    def kill(self) -> None:
        """Kill every process of the family but its head, and wait until none is left."""
        if os.getpid() != self._head:  # elsewhere the same call would reach the head, too
            raise OSError("only its head may end a family")
        while True:
            # Again and again: who has given up root's rights cannot reach a child that has not done so yet, and is told
            # of a success all the same.
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:  # all of them: each kill looks at every process of the machine
                    pass
            except ChildProcessError:
                return
            time.sleep(_AGAIN_S)


def die_with_parent(parent: int, number: int) -> None:
    """Have the kernel send this signal when the parent ends; at once when it has. Cleared by a change of user."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def end_on_sigterm() -> None:
    """Raise EOFError where this process is when it is told to end; once, so that ending is not disturbed."""
    signal.signal(signal.SIGTERM, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


def fork_told_to_end() -> int:
    """As `os.fork`, of a child that calls `end_on_sigterm` before long and must not miss what it is told until then.

    A new process of Python's forgets every signal that it was sent before `os.fork` returns in it
    (`_PySignal_AfterFork`). So SIGTERM waits at its door until it has a handler for it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    pid = -1
    try:
        pid = os.fork()
        return pid
    finally:
        if pid:  # also when there was no fork
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise EOFError

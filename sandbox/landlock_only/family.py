"""`ProcessFamily`: a process and everything it starts, which one call can kill, as `kill(-1)` does in a pid namespace.

Landlock's signal scope lets a process signal only processes restricted by the same rules or by rules nested in them. So
a process that restricts itself and then calls ``kill(-1)`` kills all of its descendants, even daemons, and nothing
else. The kernel does this in one step, so no fork escapes in between. The process is also a child subreaper
and inherits every orphan, so once it has no child left, nothing is left. Standard library only.
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


class ProcessFamily:
    """A process and all its descendants. Only the process that called `found`, the head of the family, may use this."""

    def __init__(self, head: int) -> None:
        self._head = head

    @classmethod
    def found(cls) -> Self:
        """Make this process the head of a new family, which restricts it permanently.

        Raises:
            OSError: The process can still send signals to processes outside the family.
        """
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
        """Kill every process of the family except its head, and wait until none is left."""
        if os.getpid() != self._head:  # in another process, the same call would also kill the head
            raise OSError("only the head of a process family may end the family")
        while True:
            # Repeated, because a process that has given up root's rights cannot reach a child that has not done so yet,
            # and the call succeeds all the same.
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:  # reap all first: a kill checks every process of the machine
                    pass
            except ChildProcessError:
                return
            time.sleep(_AGAIN_S)


def die_with_parent(parent: int, number: int) -> None:
    """Have the kernel signal this process when its parent ends, or at once if the parent has ended.

    A change of user clears this setting.
    """
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def end_on_sigterm() -> None:
    """Make the first SIGTERM raise EOFError in this process. Later ones are ignored while the process shuts down."""
    signal.signal(signal.SIGTERM, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


def fork_that_ends_on_sigterm() -> int:
    """Fork a child that will call `end_on_sigterm` and must not miss a SIGTERM sent before that call.

    CPython drops every signal sent to a new process before `os.fork` returns in it (`_PySignal_AfterFork`), so SIGTERM
    stays blocked in the child until it has a handler.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    pid = -1
    try:
        pid = os.fork()
        return pid
    finally:
        if pid:  # in the parent, even if the fork failed
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise EOFError

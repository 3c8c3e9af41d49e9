"""Restricts this process, then replaces it with uv. Standard library only.

uv unpacks packages of unknown authors. With wheels only, none of their code runs. If uv itself is exploited, it can
write only to the given folder, cannot gain privileges, and does not outlive the process that started it.
"""

import os
import resource
import signal
import sys
from typing import NoReturn

from sandbox.linux import landlock, syscalls

_NO_ONE = 70  # the exit code if the process that started this one has already ended


def main(arguments: list[str]) -> NoReturn:
    """Restrict this process and replace it with a command.

    Args:
        arguments: The parent's pid, the maximum size of a file in bytes, the writable folder, and the command.
    """
    parent, file_bytes, folder, *command = arguments
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(_NO_ONE)
    os.umask(0o022)  # a box runs as another user, which must be able to read the files
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(file_bytes), int(file_bytes)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    version = landlock.abi()
    if version:
        landlock.restrict(landlock.ruleset(version, [folder, os.devnull]))
    os.execve(command[0], command, os.environ)  # noqa: S606  (runs without a shell on purpose)

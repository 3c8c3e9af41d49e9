"""Started as a process of its own to become uv: binds itself first. Standard library only.

uv unpacks what strangers published. With wheels only, no code of theirs runs; should uv itself be fooled, it can write
nowhere but to the folder it was given, gains no rights, and does not outlive who started it.
"""

import os
import resource
import signal
import sys
from typing import NoReturn

from sandbox.linux import landlock, syscalls

_NO_ONE = 70  # exit code when whoever started us is gone already


def main(arguments: list[str]) -> NoReturn:
    """`arguments`: the starter's pid, the largest file in bytes, the one writable folder, then the command."""
    parent, file_bytes, folder, *command = arguments
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(_NO_ONE)
    os.umask(0o022)  # a box has a user of its own, which must be able to read
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(file_bytes), int(file_bytes)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    version = landlock.abi()
    if version:
        landlock.restrict(landlock.ruleset(version, [folder, os.devnull]))
    os.execve(command[0], command, os.environ)  # noqa: S606  (no shell is the point)

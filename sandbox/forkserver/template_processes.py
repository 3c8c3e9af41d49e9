"""`TemplateProcesses`: the supervisor and the template of one fork server, as seen from the engine's process."""

import contextlib
import errno
import os
import signal
import subprocess
import time
from pathlib import Path

from sandbox.contract import SandboxError
from sandbox.forkserver import open_files
from sandbox.linux import cgroups

ASK_DOCTOR = "Run `knackbox doctor`."
_END_S = 5.0  # after which a supervisor that does not end is killed
_SWEEP_S, _SWEEP_PAUSE_S = 2.0, 0.01


class TemplateProcesses:
    """Watches and ends the processes of a template: the supervisor, and its child, the template itself."""

    def __init__(self, supervisor: "subprocess.Popen[bytes]") -> None:
        self._supervisor = supervisor

    def stopped(self) -> bool:
        """Return whether one of the processes has been stopped by a signal."""
        pid = self._supervisor.pid
        return any(_state(each) in ("T", "t") for each in (pid, *_children(pid)))

    def kill(self) -> None:
        """Kill the supervisor. The template ends with it, and every box with the template."""
        for pid in _children(self._supervisor.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)  # a stopped template would not notice that its supervisor has ended
        self._supervisor.kill()

    def wait(self) -> None:
        """Wait until the supervisor has ended, and remove the control groups that it left behind. Blocking."""
        try:
            self._supervisor.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()  # the template dies with its supervisor
            self._supervisor.wait()
        # A killed supervisor cannot remove its control groups, and its boxes take a moment to die.
        layout, deadline = cgroups.find(), time.monotonic() + _SWEEP_S
        while cgroups.sweep(layout) and time.monotonic() < deadline:
            time.sleep(_SWEEP_PAUSE_S)


def could_not_start(problem: OSError) -> SandboxError:
    """Return the error for a process that could not be started."""
    if problem.errno in (errno.EMFILE, errno.ENFILE):
        return SandboxError("This process has no file descriptor left for a box template.", remedy=open_files.REMEDY)
    return SandboxError(f"The box template could not be started: {problem}.", remedy=ASK_DOCTOR)


def _children(pid: int) -> list[int]:
    """Return the pids of the children of a process's main thread; [] if the kernel does not list them."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    except OSError:
        return []


def _state(pid: int) -> str:
    """Return the state of a process as a single letter (see proc(5)); "" when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""

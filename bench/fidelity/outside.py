"""Runs a test program outside a box, as an unprivileged process that sees the host read-only.

It uses only the standard library and is run as a program: ``python outside.py`` with a `ProcessRequest` as JSON on
stdin. The test program gets a mount namespace, and a pid namespace in which all of its processes are killed when this
process ends. Everything else, such as the network, the devices and the limits, is that of the host. The record file
that the program writes is copied to stdout.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sandbox.linux import syscalls

WORK = "/tmp/work"
RECORD = "/tmp/work/.record"
SCRATCH = ("/tmp", "/dev/shm")
NOBODY = 65534
_OTHERS = 0o001
_TIMED_OUT = 124


@dataclass(frozen=True)
class ProcessRequest:
    """The program to run.

    Attributes:
        command: The program and its arguments, started without a shell.
        files: The text of each file to write to WORK, by name.
        shown: Host folders that must be visible, even inside folders that other users may not enter.
        scratch_bytes: The size of the program's private /tmp.
    """

    command: list[str]
    environment: dict[str, str]
    files: dict[str, str]
    shown: list[str]
    timeout_s: float
    scratch_bytes: int


def main() -> None:
    request = ProcessRequest(**json.load(sys.stdin))
    uid, gid = os.geteuid(), os.getegid()
    if uid:
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as out:
                out.write(text)
    else:
        syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID)
        uid = gid = NOBODY
    pid = os.fork()
    if pid == 0:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        try:
            code = _run_as_process_1(request, uid, gid)
        except BaseException as problem:  # noqa: BLE001 -- the fork must never return into the caller's code
            sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
            code = 70
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _run_as_process_1(request: ProcessRequest, uid: int, gid: int) -> int:
    """Start the program, wait for it, and copy its record; return its exit code."""
    _mount(request)
    os.mkdir(WORK)
    for name, text in request.files.items():
        with open(f"{WORK}/{name}", "w", encoding="utf-8") as out:
            out.write(text)
        os.chown(f"{WORK}/{name}", uid, gid)
    os.chown(WORK, uid, gid)
    child = os.fork()
    if child == 0:
        _execute(request, uid, gid)
    status = _wait(child, request.timeout_s)
    with contextlib.suppress(FileNotFoundError), open(RECORD, "rb") as record:
        shutil.copyfileobj(record, sys.stdout.buffer)
    sys.stdout.flush()
    return status


def _mount(request: ProcessRequest) -> None:
    """Make everything read-only, except a private /tmp and a private /dev/shm."""
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    trees = [(path, syscalls.open_tree(path)) for path in request.shown]
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    closed = sorted({folder for path in request.shown if (folder := _closed_ancestor(path))})
    for folder in closed:
        syscalls.mount("tmpfs", folder, "tmpfs", flags, "size=1m,mode=0755")
    _show(trees, closed)
    _make_read_only("/")
    for folder in SCRATCH:
        syscalls.mount("tmpfs", folder, "tmpfs", flags, f"size={request.scratch_bytes},mode=1777")
    for path in _show(trees, SCRATCH):
        _make_read_only(path)
    for _, tree in trees:
        os.close(tree)
    syscalls.mount("proc", "/proc", "proc", flags | syscalls.MS_NOEXEC)


def _show(trees: Sequence[tuple[str, int]], hidden: Sequence[str]) -> list[str]:
    """Mount the trees that lie in hidden folders at their paths again; return these paths."""
    shown = [(path, tree) for path, tree in trees if any(path.startswith(folder + "/") for folder in hidden)]
    for path, tree in shown:
        os.makedirs(path, exist_ok=True)
        syscalls.move_mount(tree, path)
    return [path for path, _ in shown]


def _make_read_only(path: str) -> None:
    opened = os.open(path, os.O_PATH | os.O_DIRECTORY)
    syscalls.mount_setattr(opened, syscalls.MOUNT_ATTR_RDONLY)
    os.close(opened)


def _closed_ancestor(path: str) -> str:
    """Return the uppermost parent folder that other users may not enter; "" if there is none."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts)):
        folder = "/" + "/".join(parts[:count])
        if not os.stat(folder).st_mode & _OTHERS:
            return folder
    return ""


def _execute(request: ProcessRequest, uid: int, gid: int) -> NoReturn:
    """Drop root and execute the program. Runs in the forked child and never returns."""
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.closerange(3, 64)
        if os.geteuid() == 0:
            os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        os.chdir(WORK)
        for number in (signal.SIGINT, signal.SIGQUIT):  # ignored if a shell started the benchmark in the background
            signal.signal(number, signal.SIG_DFL)
        os.execve(request.command[0], request.command, request.environment)
    finally:
        os._exit(127)


def _wait(child: int, timeout_s: float) -> int:
    """Wait for the program.

    Returns:
        Its exit code, 128 plus the number of the signal that killed it, or 124 after the time limit.
    """
    exited = os.pidfd_open(child)
    poller = select.poll()
    poller.register(exited, select.POLLIN)
    if not poller.poll(timeout_s * 1000):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return _TIMED_OUT
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()

"""Runs a program of somebody else's as an unprivileged process that sees the host read-only.

Standard library only; run as a program of its own: ``python outside.py`` with a `Wish` as JSON on stdin. The program
gets its own mounts and a pid namespace, in which everything it leaves behind is killed with this process; all else,
such as the network, the devices and the limits, is the host's. Its record file is copied to stdout.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import sys
from dataclasses import dataclass
from typing import NoReturn

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sandbox.linux import syscalls

WORK = "/tmp/work"
RECORD = "/tmp/work/.record"
NOBODY = 65534
_OTHERS = 0o001
_TIMED_OUT = 124


@dataclass(frozen=True)
class Wish:
    """command: without a shell. files: placed in WORK. shown: host folders it needs, wherever they lie.

    scratch_bytes: the size of /tmp, which is its own.
    """

    command: list[str]
    environment: dict[str, str]
    files: dict[str, str]
    shown: list[str]
    timeout_s: float
    scratch_bytes: int


def main() -> None:
    wish = Wish(**json.load(sys.stdin))
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
            code = _first(wish, uid, gid)
        except BaseException as problem:  # noqa: BLE001  (must not fall back into the caller's code)
            sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
            code = 70
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _first(wish: Wish, uid: int, gid: int) -> int:
    """Process 1: start the program, wait, and copy what it has recorded."""
    _mount(wish)
    os.mkdir(WORK)
    for name, text in wish.files.items():
        with open(f"{WORK}/{name}", "w", encoding="utf-8") as out:
            out.write(text)
        os.chown(f"{WORK}/{name}", uid, gid)
    os.chown(WORK, uid, gid)
    child = os.fork()
    if child == 0:
        _become(wish, uid, gid)
    status = _wait(child, wish.timeout_s)
    with contextlib.suppress(FileNotFoundError), open(RECORD, "rb") as record:
        shutil.copyfileobj(record, sys.stdout.buffer)
    sys.stdout.flush()
    return status


def _mount(wish: Wish) -> None:
    """Make everything read-only, except a /tmp and a /dev/shm of its own."""
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    trees = [(path, syscalls.open_tree(path)) for path in wish.shown]
    quiet = syscalls.MS_NOSUID | syscalls.MS_NODEV
    closed = sorted({folder for path in wish.shown if (folder := _closed_ancestor(path))})
    for folder in closed:
        syscalls.mount("tmpfs", folder, "tmpfs", quiet, "size=1m,mode=0755")
    for path, tree in trees:
        if any(path.startswith(folder + "/") for folder in closed):
            os.makedirs(path, exist_ok=True)
            syscalls.move_mount(tree, path)
        os.close(tree)
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    syscalls.mount_setattr(root, syscalls.MOUNT_ATTR_RDONLY)
    os.close(root)
    for folder in ("/tmp", "/dev/shm"):
        syscalls.mount("tmpfs", folder, "tmpfs", quiet, f"size={wish.scratch_bytes},mode=1777")
    syscalls.mount("proc", "/proc", "proc", quiet | syscalls.MS_NOEXEC)


def _closed_ancestor(path: str) -> str:
    """The first folder on the way that other users may not pass through; "" when there is none."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts)):
        folder = "/" + "/".join(parts[:count])
        if not os.stat(folder).st_mode & _OTHERS:
            return folder
    return ""


def _become(wish: Wish, uid: int, gid: int) -> NoReturn:
    """In the child: drop root, and become the program. Never returns."""
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
        os.execve(wish.command[0], wish.command, wish.environment)
    finally:
        os._exit(127)


def _wait(child: int, timeout_s: float) -> int:
    """Its exit code; -9 as seen by a shell when its time was over."""
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

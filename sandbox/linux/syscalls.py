"""Linux system calls for which Python has no function. Standard library only: this runs before and inside a box.

The numbers come from the generic table in the kernel's ``include/uapi/asm-generic/unistd.h``; calls newer than Linux
5.0 have the same number on every architecture; `system_calls` has the numbers of the others.
"""

import ctypes
import errno
import os

from sandbox.linux import system_calls

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
SIGCHLD = 17

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE, MS_PRIVATE = 32, 4096, 16384, 1 << 19, 1 << 18
MNT_DETACH = 2

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
OPEN_TREE_CLONE = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x04
MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_IDMAP = 0x100000

_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_CLOSE_RANGE = 436
_SYS_MOUNT_SETATTR = 442

_LAST_CAPABILITY = 63  # the kernel returns EINVAL for capabilities that it does not know
_CAP_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
# Created once, because each box gives up its capabilities twice.
_CAPSET_HEADER = (ctypes.c_uint32 * 2)(_CAP_VERSION_3, 0)
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()
# PyDLL keeps the GIL during the call: a child of a raw clone must return holding it.
_libc_holding_gil = ctypes.PyDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: object) -> int:
    """Make a raw system call.

    Raises:
        OSError: The kernel refuses the call.
    """
    return _check(int(_libc.syscall(ctypes.c_long(number), *arguments)), f"system call {number}")


def prctl(option: int, value: int = 0, third: int = 0) -> None:
    if _prctl(option, value, third, 0, 0) < 0:
        _check(-1, f"prctl {option}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    _check(
        _libc.mount(
            source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
        ),
        f"mount {kind or 'bind'} on {target}",
    )


def unmount(target: str) -> None:
    """Unmount lazily (MNT_DETACH), as is needed after pivot_root."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(descriptor: int, kinds: int) -> None:
    """Join namespaces of the process of a pidfd. With CLONE_NEWPID, only processes forked later are in the new one."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kinds)), "setns")


def pivot_root(new_root: str, put_old: str) -> None:
    syscall(system_calls.number("pivot_root"), new_root.encode(), put_old.encode())


def open_tree(path: str, *, recursive: bool = True) -> int:
    """Return a descriptor of a detached copy of the mount at `path`, with the mounts below it if `recursive`."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (AT_RECURSIVE if recursive else 0)
    return syscall(_SYS_OPEN_TREE, ctypes.c_int(AT_FDCWD), path.encode(), ctypes.c_uint(flags))


def move_mount(tree: int, target: str) -> None:
    """Attach a tree returned by `open_tree`."""
    syscall(
        _SYS_MOVE_MOUNT,
        ctypes.c_int(tree),
        b"",
        ctypes.c_int(AT_FDCWD),
        target.encode(),
        ctypes.c_uint(MOVE_MOUNT_F_EMPTY_PATH),
    )


def mount_setattr(tree: int, attributes: int, *, user_namespace: int = 0, recursive: bool = True) -> None:
    """Set flags on a detached tree and, with MOUNT_ATTR_IDMAP, the id mapping of `user_namespace`."""
    attr = _MountAttr(attr_set=attributes, userns_fd=user_namespace)
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    syscall(
        _SYS_MOUNT_SETATTR,
        ctypes.c_int(tree),
        b"",
        ctypes.c_uint(flags),
        ctypes.byref(attr),
        ctypes.c_size_t(ctypes.sizeof(attr)),
    )


def close_from(first: int) -> None:
    """Close every descriptor from `first` up."""
    syscall(_SYS_CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), ctypes.c_uint(0))


def clone(flags: int) -> int:
    """Fork into new namespaces: returns 0 in the child, and the child's pid in the parent.

    Bypasses `os.fork`, and with it the work that CPython does in a child (new locks, new random state). This work takes
    0.5 ms, is needed only with threads, and is done when the box forks its worker. The process must have only one
    thread.
    """
    nothing = ctypes.c_long(0)
    result = _libc_holding_gil.syscall(
        ctypes.c_long(system_calls.number("clone")), ctypes.c_ulong(flags | SIGCHLD), nothing, nothing, nothing, nothing
    )
    return _check(int(result), "clone")


def fork() -> int:
    """Fork as the C library does, without CPython's own work (see `clone`, and `sandbox.forkserver.quick_fork`)."""
    return _check(int(_libc_holding_gil.fork()), "fork")


def drop_bounding_set() -> None:
    """Prevent this process and the programs that it starts from gaining capabilities."""
    for capability in range(_LAST_CAPABILITY + 1):
        if _prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            if ctypes.get_errno() == errno.EINVAL:
                break
            _check(-1, f"prctl {PR_CAPBSET_DROP}")
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)


def drop_capabilities() -> None:
    """Give up every capability of this process, permanently."""
    syscall(system_calls.number("capset"), _CAPSET_HEADER, _NO_CAPABILITIES)

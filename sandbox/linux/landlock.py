"""Landlock: a second line of defence behind the mount namespace. Standard library only.

Everything may be read and run, but only the given paths may be written. From ABI 6 on, signals and abstract sockets
stay within the box. The access bits are those of the kernel's ``include/uapi/linux/landlock.h``.
"""

import ctypes
import os
import stat
from collections.abc import Sequence

from sandbox.linux import syscalls

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
READ = _EXECUTE | _READ_FILE | _READ_DIR
TCP_BIND_AND_CONNECT = 3
_MAKE_SOCK = 1 << 9
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ABI_1 = (1 << 13) - 1
SCOPE_ABSTRACT_UNIX, SCOPE_SIGNAL = 1, 2
_ABI_REFER, _ABI_TRUNCATE, _ABI_NET, _ABI_IOCTL, _ABI_SCOPE = 2, 3, 4, 5, 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """Return the version of Landlock's ABI that this kernel supports; 0 if it has no Landlock."""
    try:
        return syscalls.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION_FLAG))
    except OSError:
        return 0


def _handled(version: int) -> int:
    bits = _ABI_1
    bits |= _REFER if version >= _ABI_REFER else 0
    bits |= _TRUNCATE if version >= _ABI_TRUNCATE else 0
    bits |= _IOCTL_DEV if version >= _ABI_IOCTL else 0
    return bits


def ruleset(version: int, writable: Sequence[str]) -> int:
    """Return the descriptor of a ruleset under which only paths below `writable` can be written."""
    scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL if version >= _ABI_SCOPE else 0
    rules = create(version, fs=_handled(version), scoped=scoped)
    allow(rules, "/", READ)
    for path in writable:
        allow(rules, path, _handled(version))
    return rules


def create(version: int, *, fs: int = 0, net: int = 0, scoped: int = 0) -> int:
    """Return the descriptor of a ruleset without rules, which refuses the accesses listed in the arguments.

    Raises:
        OSError: The kernel refuses the ruleset.
    """
    attr = _Ruleset(fs, net, scoped)
    known = 24 if version >= _ABI_SCOPE else 16 if version >= _ABI_NET else 8  # bytes of the struct this kernel knows
    return syscalls.syscall(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(known), ctypes.c_uint(0))


def allow(rules: int, path: str, access: int) -> None:
    """Add a rule that allows `access` to a path."""
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            access &= _FILE_ONLY | _TRUNCATE | _IOCTL_DEV
        rule = _PathBeneath(allowed=access, parent=parent)
        syscalls.syscall(
            _ADD_RULE,
            ctypes.c_int(rules),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint(0),
        )
    finally:
        os.close(parent)


def write_access(version: int) -> int:
    """Return every access allowed on a writable path."""
    return _handled(version)


def workspace_access(version: int) -> int:
    """Return every access allowed on a workspace: all except creating sockets, which the host could reach."""
    return _handled(version) & ~_MAKE_SOCK


def sockets_only_in(places: Sequence[str], version: int) -> int:
    """Return the descriptor of an additional ruleset that allows the creation of socket files only in `places`."""
    rules = create(version, fs=_MAKE_SOCK)
    for path in places:
        allow(rules, path, _MAKE_SOCK)
    return rules


def restrict(rules: int) -> None:
    """Apply the ruleset to this process and everything it starts. Needs no_new_privs. Closes the descriptor.

    Raises:
        OSError: The kernel refuses the ruleset.
    """
    syscalls.syscall(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint(0))
    os.close(rules)

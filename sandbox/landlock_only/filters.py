"""Second seccomp filters, for what namespaces would have kept away and Landlock does not see. Standard library only.

They go beside `sandbox.namespace.seccomp.program`; of several filters the kernel takes the strictest answer. Numbers:
the kernel's ``arch/x86/entry/syscalls/syscall_64.tbl``.
"""

import errno

from sandbox.namespace.seccomp import AF_UNIX, _equal, _load, _op, _prologue, _return, _when

_ERRNO = 0x00050000
_ALLOW = 0x7FFF0000
_EPERM, _EACCES, _ENOTSUP, _DONE = (_ERRNO | code for code in (errno.EPERM, errno.EACCES, errno.ENOTSUP, 0))
_JEQ, _AND = 0x15, 0x54

# A datagram socket of a pair can be sent to any address, pair or not; stream and seqpacket sockets cannot.
_PAIR_TYPES = (1, 5)
_TYPE_BITS = 0xF
_SOCKET, _SOCKETPAIR, _PRCTL, _IOCTL = 41, 53, 157, 16
_PR_SET_PDEATHSIG = 1
_REFUSED = {
    "connect": (42, _EPERM),
    "bind": (49, _EPERM),
    "listen": (50, _EPERM),
    "inotify_add_watch": (254, _EACCES),  # tells the names in folders that Landlock does not let it list
}

# Landlock knows of reading and writing; these change a file of the user's own by its name or a descriptor for reading.
_FS_IOC_SETFLAGS, _FS_IOC_FSSETXATTR = 0x40086602, 0x401C5820
_CHANGES_OF_OWN_FILES = {
    # Every copy of a file does these, so they seem to work.
    "chmod": (90, _DONE),
    "fchmod": (91, _DONE),
    "fchmodat": (268, _DONE),
    "fchmodat2": (452, _DONE),
    "utime": (132, _DONE),
    "utimes": (235, _DONE),
    "futimesat": (261, _DONE),
    "utimensat": (280, _DONE),
    "chown": (92, _EPERM),
    "fchown": (93, _EPERM),
    "lchown": (94, _EPERM),
    "fchownat": (260, _EPERM),
    "setxattr": (188, _ENOTSUP),
    "lsetxattr": (189, _ENOTSUP),
    "fsetxattr": (190, _ENOTSUP),
    "removexattr": (197, _ENOTSUP),
    "lremovexattr": (198, _ENOTSUP),
    "fremovexattr": (199, _ENOTSUP),
}


def without_namespaces() -> bytes:
    """For every worker: no socket but connected pairs."""
    ops = _prologue()
    for number, answer in _REFUSED.values():
        ops += _when(number, [_return(answer)])
    ops += _when(_SOCKET, [_return(_EPERM)])
    ops += _when(_SOCKETPAIR, _only_connected_pairs())
    # A worker ends with the process that watches over it, and may not call that off.
    ops += _when(_PRCTL, _equal(0, _PR_SET_PDEATHSIG, [_return(_EPERM)]))
    return b"".join([*ops, _return(_ALLOW)])


def with_own_files() -> bytes:
    """For a worker whose user owns files outside of its folder: it may not change what Landlock does not guard."""
    ops = _prologue()
    for number, answer in _CHANGES_OF_OWN_FILES.values():
        ops += _when(number, [_return(answer)])
    flags = [_return(_EPERM)]
    ops += _when(_IOCTL, _equal(1, _FS_IOC_SETFLAGS, flags, _equal(1, _FS_IOC_FSSETXATTR, flags)))
    return b"".join([*ops, _return(_ALLOW)])


def _only_connected_pairs() -> list[bytes]:
    types = [_op(_JEQ, kind, len(_PAIR_TYPES) - index, 0) for index, kind in enumerate(_PAIR_TYPES)]
    checked = [_load(1), _op(_AND, _TYPE_BITS), *types, _return(_EPERM), _return(_ALLOW)]
    return [_load(0), _op(_JEQ, AF_UNIX, 0, len(checked)), *checked, _return(_EPERM)]

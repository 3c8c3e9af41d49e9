"""Additional seccomp filters, for what namespaces would prevent and Landlock does not cover. Standard library only.

They are installed together with `sandbox.linux.seccomp.program`; the kernel uses the strictest result of all filters.
"""

from sandbox.linux import bpf
from sandbox.linux.seccomp import AF_UNIX, FALLOCATE, LAST_REVIEWED, MAKE_NODES, no_sockets
from sandbox.linux.system_calls import number, numbers

_EPERM = [bpf.answer(bpf.EPERM)]
# A datagram socket of a pair can send to any address; stream and seqpacket sockets cannot.
_PAIR_TYPES = (1, 5)
_TYPE_BITS = 0xF
_SOCKET, _SOCKETPAIR, _PRCTL, _IOCTL = (number(name) for name in ("socket", "socketpair", "prctl", "ioctl"))
_PR_SET_PDEATHSIG = 1
_REFUSED = {
    "connect": bpf.EPERM,
    "bind": bpf.EPERM,
    "listen": bpf.EPERM,
    "inotify_add_watch": bpf.EACCES,  # reveals the names in folders that Landlock does not allow listing
}

# Landlock covers reading and writing; these calls change one of the user's files by its name or through a read-only
# descriptor.
_FS_IOC_SETFLAGS, _FS_IOC_FSSETXATTR = 0x40086602, 0x401C5820
_CHANGES_OF_OWN_FILES = {
    # Programs that copy files make these calls, so the calls return success without any effect.
    "chmod": bpf.DONE,
    "fchmod": bpf.DONE,
    "fchmodat": bpf.DONE,
    "fchmodat2": bpf.DONE,
    "utime": bpf.DONE,
    "utimes": bpf.DONE,
    "futimesat": bpf.DONE,
    "utimensat": bpf.DONE,
    "chown": bpf.EPERM,
    "fchown": bpf.EPERM,
    "lchown": bpf.EPERM,
    "fchownat": bpf.EPERM,
    "setxattr": bpf.ENOTSUP,
    "lsetxattr": bpf.ENOTSUP,
    "fsetxattr": bpf.ENOTSUP,
    "removexattr": bpf.ENOTSUP,
    "lremovexattr": bpf.ENOTSUP,
    "fremovexattr": bpf.ENOTSUP,
}


def without_namespaces() -> bytes:
    """Return the filter of every worker: no sockets except connected pairs, and no socket files."""
    ops = bpf.prologue(LAST_REVIEWED)
    for name, call in numbers(_REFUSED).items():
        ops += bpf.when(call, [bpf.answer(_REFUSED[name])])
    ops += bpf.when(_SOCKET, _EPERM)
    for call, mode in MAKE_NODES:
        ops += bpf.when(call, no_sockets(mode))
    # No job's counters would show the space that it reserves. If it is refused, libraries write zeros instead.
    ops += bpf.when(FALLOCATE, [bpf.answer(bpf.ENOTSUP)])
    ops += bpf.when(_SOCKETPAIR, _only_connected_pairs())
    # A worker dies with the process that supervises it, and must not be able to change that.
    ops += bpf.when(_PRCTL, bpf.equal(0, _PR_SET_PDEATHSIG, _EPERM))
    return b"".join([*ops, bpf.answer(bpf.ALLOW)])


def with_own_files() -> bytes:
    """Return the filter of a worker whose user owns files outside of the job's folder.

    It refuses changes to these files that Landlock does not refuse.
    """
    ops = bpf.prologue(LAST_REVIEWED)
    for name, call in numbers(_CHANGES_OF_OWN_FILES).items():
        ops += bpf.when(call, [bpf.answer(_CHANGES_OF_OWN_FILES[name])])
    ops += bpf.when(_IOCTL, bpf.equal(1, _FS_IOC_SETFLAGS, _EPERM, bpf.equal(1, _FS_IOC_FSSETXATTR, _EPERM)))
    return b"".join([*ops, bpf.answer(bpf.ALLOW)])


def _only_connected_pairs() -> list[bytes]:
    types = [bpf.op(bpf.JEQ, kind, len(_PAIR_TYPES) - index, 0) for index, kind in enumerate(_PAIR_TYPES)]
    checked = [bpf.load(1), bpf.op(bpf.AND, _TYPE_BITS), *types, bpf.answer(bpf.EPERM), bpf.answer(bpf.ALLOW)]
    return [bpf.load(0), bpf.op(bpf.JEQ, AF_UNIX, 0, len(checked)), *checked, bpf.answer(bpf.EPERM)]

"""The system calls a box may not make, as a classic BPF program. Standard library only.

A reviewed deny-list: full CPython, Node and Bash need some 250 calls, and a list of what they may use would break
with every libc; what is refused here is what public escapes of shared-kernel sandboxes went through, and what reaches
outside the box's namespaces. Numbers: the kernel's ``arch/x86/entry/syscalls/syscall_64.tbl``. Calls of 32-bit
programs and of the x32 ABI are refused whole, since their numbers differ.
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable

from sandbox.namespace import syscalls

AUDIT_ARCH_X86_64 = 0xC000003E

# Refused with EPERM.
DENIED = {
    # namespaces, mounts, roots
    "unshare": 272,
    "setns": 308,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "statmount": 457,
    "listmount": 458,
    # other processes, and handles that go around paths
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "process_madvise": 440,
    "process_mrelease": 448,
    "pidfd_getfd": 438,
    "kcmp": 312,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "fanotify_init": 300,
    "fanotify_mark": 301,
    # kernel surface that has been the way out before
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "uretprobe": 335,
    "uprobe": 336,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "modify_ldt": 154,
    "vmsplice": 278,
    "remap_file_pages": 216,
    "lookup_dcookie": 212,
    "move_pages": 279,
    "migrate_pages": 256,
    "mbind": 237,
    "set_mempolicy": 238,
    "get_mempolicy": 239,
    "set_mempolicy_home_node": 450,
    # memory that no process is charged for, and pools all of the machine shares
    "memfd_secret": 447,
    "shmget": 29,
    "shmat": 30,
    "shmctl": 31,
    "semget": 64,
    "semop": 65,
    "semctl": 66,
    "semtimedop": 220,
    "msgget": 68,
    "msgsnd": 69,
    "msgrcv": 70,
    "msgctl": 71,
    "mq_open": 240,
    "io_setup": 206,
    "io_destroy": 207,
    "io_getevents": 208,
    "io_submit": 209,
    "io_cancel": 210,
    "io_pgetevents": 333,
    # the machine
    "sync": 162,
    "syncfs": 306,
    "kexec_load": 246,
    "kexec_file_load": 320,
    "init_module": 175,
    "finit_module": 313,
    "delete_module": 176,
    "create_module": 174,
    "reboot": 169,
    "swapon": 167,
    "swapoff": 168,
    "acct": 163,
    "quotactl": 179,
    "quotactl_fd": 443,
    "nfsservctl": 180,
    "sethostname": 170,
    "setdomainname": 171,
    "settimeofday": 164,
    "clock_settime": 227,
    "clock_adjtime": 305,
    "adjtimex": 159,
    "iopl": 172,
    "ioperm": 173,
    "syslog": 103,
    "vhangup": 153,
    "uselib": 134,
    "ustat": 136,
    "sysfs": 139,
    "personality": 135,
    "lsm_set_self_attr": 460,
}
# Answered with ENOSYS, so that libraries fall back to what they did before these existed.
UNKNOWN = {
    "clone3": 435,  # its flags lie behind a pointer that a filter cannot read
    "openat2": 437,  # so does the mode of the file it makes
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "memfd_create": 319,  # pages that count in no process's memory
}
LAST_REVIEWED = 462  # mseal, Linux 6.10; what came later is unknown here, too

# A file with one of these bits gives its owner's rights to whoever runs it: also on the host, where a workspace is.
_SET_ID = 0o6000
_DEVICE = 0o020000  # this bit is in S_IFCHR and S_IFBLK, and in no other type
_CREATES = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE
_MODES = {  # call: the argument that is a mode
    "chmod": (90, 1),
    "fchmod": (91, 1),
    "fchmodat": (268, 2),
    "fchmodat2": (452, 2),
    "mkdir": (83, 1),
    "mkdirat": (258, 2),
    "creat": (85, 1),
    "mknod": (133, 1),
    "mknodat": (259, 2),
}
_OPENS = {"open": (2, 1), "openat": (257, 2)}  # call: the argument that is flags; the mode comes after it
# Calls that may be made about oneself (0) and about nobody else: process 1 of the box has the same user.
_ONLY_SELF = {
    "prlimit64": (302, 0),
    "sched_setparam": (142, 0),
    "sched_setscheduler": (144, 0),
    "sched_setaffinity": (203, 0),
    "sched_setattr": (314, 0),
}
# The same, where a first argument can also mean everything one's user runs: all boxes have one user on the host.
_ONLY_SELF_OR_GROUP = {  # call: its number, and what that argument then is (PRIO_USER, IOPRIO_WHO_USER)
    "setpriority": (141, 2),
    "ioprio_set": (251, 3),
}
_CLONE, _SOCKET, _SOCKETPAIR, _IOCTL, _PRCTL = 56, 41, 53, 16, 157
_FCNTL, _RENAMEAT2 = 72, 316
_F_SETLEASE, _F_NOTIFY = 1024, 1026  # hold up, or watch, what others do with a workspace's files
_RENAME_WHITEOUT = 4  # leaves a 0:0 device behind, which mknod may not make
_NAMESPACES = 0x7E020000 | 0x00000080  # every CLONE_NEW*, CLONE_NEWTIME too
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PR_SET_DUMPABLE = 4
AF_UNIX = 1
ALLOWED_FAMILIES = {"AF_UNIX": AF_UNIX, "AF_INET": 2, "AF_INET6": 10}
ALLOWED_PROTOCOLS = (0, 6, 17)  # the family's own, TCP, UDP

_LD, _JA, _JEQ, _JGT, _JGE, _JSET, _RET = 0x20, 0x05, 0x15, 0x25, 0x35, 0x45, 0x06
_AND = 0x54
_TYPE_MASK, _CONNECTED = 0xF, (1, 5)  # of a socket's type; SOCK_STREAM, SOCK_SEQPACKET
_FARTHEST = 255  # a conditional jump has one byte
_NR, _ARCH, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _NO_FAMILY = (_ERRNO | code for code in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2

Ops = list[bytes]


def supported() -> bool:
    """Whether the table above is for this machine."""
    return platform.machine() == "x86_64"


def program() -> bytes:
    """The filter of every worker, assembled."""
    rules: dict[int, Ops] = {}
    for numbers, answer in ((DENIED, _EPERM), (UNKNOWN, _ENOSYS)):
        rules |= {number: [_return(answer)] for number in numbers.values()}
    rules[_CLONE] = _refuse_bits(0, _NAMESPACES)
    for name, (number, argument) in _MODES.items():
        bits = _SET_ID | (_DEVICE if name.startswith("mknod") else 0)
        rules[number] = _refuse_bits(argument, bits)
    for number, flags in _OPENS.values():
        checked = _refuse_bits(flags + 1, _SET_ID)
        rules[number] = [_load(flags), _op(_JSET, _CREATES, 0, len(checked)), *checked, _return(_ALLOW)]
    for number, argument in _ONLY_SELF.values():
        rules[number] = _only_zero(argument)
    for number, user in _ONLY_SELF_OR_GROUP.values():
        rules[number] = _equal(0, user, [_return(_EPERM)], _only_zero(1))
    rules[_FCNTL] = _equal(1, _F_SETLEASE, [_return(_EPERM)], _equal(1, _F_NOTIFY, [_return(_EPERM)]))
    rules[_RENAMEAT2] = _refuse_bits(4, _RENAME_WHITEOUT)
    for number in (_SOCKET, _SOCKETPAIR):
        rules[number] = _one_of(2, ALLOWED_PROTOCOLS, _one_of(0, ALLOWED_FAMILIES.values(), [_return(_ALLOW)]))
    # Process 1 must be able to read how much memory each process has.
    rules[_PRCTL] = _equal(0, _PR_SET_DUMPABLE, _equal(1, 0, [_return(_EPERM)]))
    rules[_IOCTL] = _equal(1, _TIOCSTI, [_return(_EPERM)], _equal(1, _TIOCLINUX, [_return(_EPERM)]))
    return b"".join([*_prologue(), *_search(_ranges(rules))])


def program_without_unix_sockets() -> bytes:
    """A second filter, for a box that sees a workspace: a socket file in it would lead to a server on the host."""
    # Also through a pair of datagram sockets one can send to any address; a pair of connected ones has only itself.
    connected = [_load(1), _op(_AND, _TYPE_MASK), *_one_of_loaded(_CONNECTED, [_return(_ALLOW)])]
    ops = [*_prologue(), *_when(_SOCKET, _equal(0, AF_UNIX, [_return(_EPERM)])), *_when(_SOCKETPAIR, connected)]
    return b"".join([*ops, _return(_ALLOW)])


def _prologue() -> Ops:
    """Only 64-bit calls of this architecture go on; what the table does not know is not there."""
    return [
        _op(_LD, _ARCH),
        _op(_JEQ, AUDIT_ARCH_X86_64, 1, 0),
        _return(_KILL),
        _op(_LD, _NR),
        _op(_JGT, LAST_REVIEWED, 0, 1),  # the x32 ABI's numbers, too
        _return(_ENOSYS),
    ]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _return(answer: int) -> bytes:
    return _op(_RET, answer)


def _load(argument: int) -> bytes:
    """The low half of an argument; the kernel looks at no more of those checked here."""
    return _op(_LD, _ARGUMENTS + 8 * argument)


def _when(number: int, body: Ops) -> Ops:
    """`body`, which always returns, for this call; with any other, what comes after it."""
    return [_op(_JEQ, number, 0, len(body)), *body]


def _ranges(rules: dict[int, Ops]) -> list[tuple[int, Ops]]:
    """(first number, body) of each run of calls that are treated alike, from 0 up; what has no rule is allowed."""
    found: list[tuple[int, Ops]] = []
    for number in range(max(rules) + 2):
        body = rules.get(number, [_return(_ALLOW)])
        if not found or found[-1][1] != body:
            found.append((number, body))
    return found


def _search(ranges: list[tuple[int, Ops]]) -> Ops:
    """Find a call's body by halves.

    Not for the calls' sake, whose answer the kernel remembers where it can: to find out where, it runs the filter over
    every number as it is put on, and through a plain list that takes 0.3 ms of every box's start.
    """
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, above = _search(ranges[:middle]), _search(ranges[middle:])
    first = ranges[middle][0]
    if len(below) <= _FARTHEST:
        return [_op(_JGE, first, len(below), 0), *below, *above]
    return [_op(_JGE, first, 0, 1), _op(_JA, len(below)), *below, *above]


def _refuse_bits(argument: int, bits: int) -> Ops:
    return [_load(argument), _op(_JSET, bits, 0, 1), _return(_EPERM), _return(_ALLOW)]


def _only_zero(argument: int) -> Ops:
    return [_load(argument), _op(_JEQ, 0, 1, 0), _return(_EPERM), _return(_ALLOW)]


def _equal(argument: int, value: int, then: Ops, otherwise: Ops | None = None) -> Ops:
    return [_load(argument), _op(_JEQ, value, 0, len(then)), *then, *(otherwise or []), _return(_ALLOW)]


def _one_of(argument: int, values: Iterable[int], then: Ops) -> Ops:
    """`then` when the argument is one of these; else there is no such family."""
    return [_load(argument), *_one_of_loaded(values, then)]


def _one_of_loaded(values: Iterable[int], then: Ops) -> Ops:
    listed = list(values)
    tests = [_op(_JEQ, value, len(listed) - index, 0) for index, value in enumerate(listed)]
    return [*tests, _return(_NO_FAMILY), *then]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def apply(assembled: bytes) -> None:
    """Put the filter on this process and all it will ever start. Needs no_new_privs. Raises OSError."""
    prog = _Program(len(assembled) // 8, assembled)
    syscalls.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(prog))

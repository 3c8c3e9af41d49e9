"""The system calls that a box may not make, as a classic BPF program. Standard library only.

The program is a reviewed deny-list: full CPython, Node and Bash need about 250 calls, and an allow-list would break
with every libc. The program refuses calls that public escapes from shared-kernel sandboxes have used, and calls that
act outside the box's namespaces. It also refuses all calls of 32-bit programs and of the x32 ABI, since their numbers
differ. The numbers in this module are those of the kernel's ``arch/x86/entry/syscalls/syscall_64.tbl``.
"""

import ctypes
import platform
import stat

from sandbox.linux import bpf, syscalls

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
    # other processes, and handles that bypass paths
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
    # parts of the kernel that escapes have used before
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
    # memory that no process is charged for, and resources shared by the whole machine
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
    # calls that change or use the whole machine
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
# These calls fail with ENOSYS, which makes libraries use older calls instead.
UNKNOWN = {
    "clone3": 435,  # its flags are behind a pointer, which a filter cannot read
    "openat2": 437,  # the mode of the file that it creates is also behind a pointer
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "memfd_create": 319,  # its pages are not counted in the memory of any process
}
LAST_REVIEWED = 462  # mseal, Linux 6.10; later calls are treated as unknown

# A file with one of these bits gives its owner's rights to anyone who runs it, even on the host if in a workspace.
_SET_ID = 0o6000
_DEVICE = 0o020000  # this bit is in S_IFCHR and S_IFBLK, and in no other type
_CREATES = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE
_MODES = {  # call: the number of the argument that is a mode
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
_OPENS = {"open": (2, 1), "openat": (257, 2)}  # call: the number of the argument with the flags, and of the mode
# Calls that a process may make only about itself (0), because process 1 of the box has the same user.
_ONLY_SELF = {
    "prlimit64": (302, 0),
    "sched_setparam": (142, 0),
    "sched_setaffinity": (203, 0),
    "sched_setattr": (314, 0),
}
_OWNERS = {  # call: its number, and the arguments that are user or group ids
    "chown": (92, (1, 2)),
    "fchown": (93, (1, 2)),
    "lchown": (94, (1, 2)),
    "fchownat": (260, (2, 3)),
    "setuid": (105, (0,)),
    "setgid": (106, (0,)),
    "setreuid": (113, (0, 1)),
    "setregid": (114, (0, 1)),
    "setresuid": (117, (0, 1, 2)),
    "setresgid": (119, (0, 1, 2)),
}
_UNCHANGED = 0xFFFFFFFF  # -1: leave this id unchanged
# Calls that a process may make only about itself or its group (0). Their first argument could also select all processes
# of a user, and all boxes have the same user on the host.
_ONLY_SELF_OR_GROUP = {  # call: its number, and the value of `which` that means a user (PRIO_USER, IOPRIO_WHO_USER)
    "setpriority": (141, 2),
    "ioprio_set": (251, 3),
}
_SCHED_SETSCHEDULER, _SCHED_OTHER = 144, 0
_CLONE, _SOCKET, _SOCKETPAIR, _IOCTL, _PRCTL = 56, 41, 53, 16, 157
_FCNTL, _RENAMEAT2, FALLOCATE = 72, 316, 285
MKNOD, MKNODAT = _MODES["mknod"][0], _MODES["mknodat"][0]
_FILE_TYPE = 0o170000  # S_IFMT
_F_SETLEASE, _F_NOTIFY = 1024, 1026  # delay or observe what others do with the files of a workspace
_RENAME_WHITEOUT = 4  # creates a 0:0 device, which mknod may not
_NEGATIVE = 1 << 31
_NAMESPACES = 0x7E020000 | 0x00000080  # every CLONE_NEW*, including CLONE_NEWTIME
# Inject input into a terminal, control or redirect the console, or load a line discipline (a kernel module).
_TERMINAL_CONTROLS = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "TIOCCONS": 0x541D, "TIOCSETD": 0x5423}
_PR_SET_DUMPABLE = 4
AF_UNIX, _AF_NETLINK = 1, 16
ALLOWED_FAMILIES = {"AF_UNIX": AF_UNIX, "AF_INET": 2, "AF_INET6": 10}
ALLOWED_PROTOCOLS = (0, 6, 17)  # the family's default, TCP, UDP

_TYPE_MASK, _CONNECTED = 0xF, (1, 5)  # mask of a socket's type; SOCK_STREAM, SOCK_SEQPACKET
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_REFUSED, _ALLOWED = [bpf.answer(bpf.EPERM)], [bpf.answer(bpf.ALLOW)]


def supported() -> bool:
    """Return whether this module has the system call numbers of this machine's architecture."""
    return platform.machine() == "x86_64"


def program(only_user: int | None = None) -> bytes:
    """Return the assembled filter that applies to every worker.

    `only_user` is the only user and group id of the worker's user namespace. A change to any other id fails with EPERM,
    as if the id existed. For an id that does not exist, the kernel would return EINVAL, which programs do not expect.
    """
    rules: dict[int, bpf.Ops] = {}
    if only_user is not None:
        for number, arguments in _OWNERS.values():
            rules[number] = bpf.only_values(arguments, (only_user, _UNCHANGED))
    for numbers, answer in ((DENIED, bpf.EPERM), (UNKNOWN, bpf.ENOSYS)):
        rules |= {number: [bpf.answer(answer)] for number in numbers.values()}
    rules[_CLONE] = bpf.refuse_bits(0, _NAMESPACES)
    for name, (number, argument) in _MODES.items():
        bits = _SET_ID | (_DEVICE if name.startswith("mknod") else 0)
        rules[number] = bpf.refuse_bits(argument, bits)
    for number, flags in _OPENS.values():
        checked = bpf.refuse_bits(flags + 1, _SET_ID)
        rules[number] = [bpf.load(flags), bpf.op(bpf.JSET, _CREATES, 0, len(checked)), *checked, bpf.answer(bpf.ALLOW)]
    for number, argument in _ONLY_SELF.values():
        rules[number] = bpf.only_zero(argument)
    for number, user in _ONLY_SELF_OR_GROUP.values():
        rules[number] = bpf.equal(0, user, _REFUSED, bpf.only_zero(1))
    # ZeroMQ sets the default scheduling policy of each of its threads by id, and aborts if the call fails. The call
    # therefore succeeds without an effect.
    another = bpf.equal(1, _SCHED_OTHER, [bpf.answer(bpf.DONE)], _REFUSED)
    # Allowed for the process itself, and for a negative pid, which the kernel refuses anyway.
    rules[_SCHED_SETSCHEDULER] = bpf.equal(0, 0, _ALLOWED, bpf.when_bits(0, _NEGATIVE, _ALLOWED, another))
    rules[_FCNTL] = bpf.equal(1, _F_SETLEASE, _REFUSED, bpf.equal(1, _F_NOTIFY, _REFUSED))
    rules[_RENAMEAT2] = bpf.refuse_bits(4, _RENAME_WHITEOUT)
    for number in (_SOCKET, _SOCKETPAIR):
        rules[number] = bpf.one_of(2, ALLOWED_PROTOCOLS, bpf.one_of(0, ALLOWED_FAMILIES.values(), _ALLOWED))
    # ZeroMQ lists network devices before it binds, and aborts unless the error is one it knows.
    rules[_SOCKET] = bpf.equal(0, _AF_NETLINK, [bpf.answer(bpf.ENOTSUP)], rules[_SOCKET])
    # Process 1 must be able to read each process's memory usage.
    rules[_PRCTL] = bpf.equal(0, _PR_SET_DUMPABLE, bpf.equal(1, 0, _REFUSED))
    rules[_IOCTL] = bpf.refuse_values(1, _TERMINAL_CONTROLS.values())
    return b"".join([*bpf.prologue(LAST_REVIEWED), *bpf.search(rules)])


def program_for_a_workspace() -> bytes:
    """Return the assembled second filter of a box that sees a workspace.

    A socket file in the workspace could connect the job to a server on the host, or the host to a server of the job.
    Reserving disk space without writing to it is also refused, because no process would be charged for the space.
    Libraries then write zeros instead.
    """
    # The sockets of a datagram pair can send to any address, those of a connected pair only to each other.
    connected = [bpf.load(1), bpf.op(bpf.AND, _TYPE_MASK), *bpf.one_of_loaded(_CONNECTED, _ALLOWED)]
    ops = [
        *bpf.prologue(LAST_REVIEWED),
        *bpf.when(_SOCKET, bpf.equal(0, AF_UNIX, _REFUSED)),
        *bpf.when(_SOCKETPAIR, connected),
        *bpf.when(MKNOD, no_sockets(1)),
        *bpf.when(MKNODAT, no_sockets(2)),
        *bpf.when(FALLOCATE, [bpf.answer(bpf.ENOTSUP)]),
    ]
    return b"".join([*ops, bpf.answer(bpf.ALLOW)])


def no_sockets(mode: int) -> bpf.Ops:
    """Refuse, with EPERM, a call that would create a socket file. `mode` is the index of the call's mode argument."""
    checked = [bpf.op(bpf.JEQ, stat.S_IFSOCK, 0, 1), bpf.answer(bpf.EPERM), bpf.answer(bpf.ALLOW)]
    return [bpf.load(mode), bpf.op(bpf.AND, _FILE_TYPE), *checked]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def apply(assembled: bytes) -> None:
    """Install the filter on this process and everything it starts. Needs no_new_privs.

    Raises:
        OSError: The kernel refuses the filter.
    """
    prog = _Program(len(assembled) // 8, assembled)
    syscalls.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(prog))

"""The system calls that a box may not make, as a classic BPF program. Standard library only.

The program is a reviewed deny-list: full CPython, Node and Bash need about 250 calls, and an allow-list would break
with every libc. The program refuses calls that public escapes from shared-kernel sandboxes have used, and calls that
act outside the box's namespaces. It also refuses all calls of 32-bit programs and of the x32 ABI, since their numbers
differ.
"""

import ctypes
import stat

from sandbox.linux import bpf, syscalls
from sandbox.linux.system_calls import number, numbers

# Refused with EPERM.
DENIED = numbers(
    (
        # namespaces, mounts, roots
        "unshare",
        "setns",
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "open_tree",
        "move_mount",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "mount_setattr",
        "statmount",
        "listmount",
        # other processes, and handles that bypass paths
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "process_madvise",
        "process_mrelease",
        "pidfd_getfd",
        "kcmp",
        "name_to_handle_at",
        "open_by_handle_at",
        "fanotify_init",
        "fanotify_mark",
        # parts of the kernel that escapes have used before
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "uretprobe",
        "uprobe",
        "add_key",
        "request_key",
        "keyctl",
        "modify_ldt",
        "vmsplice",
        "remap_file_pages",
        "lookup_dcookie",
        "move_pages",
        "migrate_pages",
        "mbind",
        "set_mempolicy",
        "get_mempolicy",
        "set_mempolicy_home_node",
        # memory that no process is charged for, and resources shared by the whole machine
        "memfd_secret",
        "shmget",
        "shmat",
        "shmctl",
        "semget",
        "semop",
        "semctl",
        "semtimedop",
        "msgget",
        "msgsnd",
        "msgrcv",
        "msgctl",
        "mq_open",
        "io_setup",
        "io_destroy",
        "io_getevents",
        "io_submit",
        "io_cancel",
        "io_pgetevents",
        # calls that change or use the whole machine
        "sync",
        "syncfs",
        "kexec_load",
        "kexec_file_load",
        "init_module",
        "finit_module",
        "delete_module",
        "create_module",
        "reboot",
        "swapon",
        "swapoff",
        "acct",
        "quotactl",
        "quotactl_fd",
        "nfsservctl",
        "sethostname",
        "setdomainname",
        "settimeofday",
        "clock_settime",
        "clock_adjtime",
        "adjtimex",
        "iopl",
        "ioperm",
        "syslog",
        "vhangup",
        "uselib",
        "ustat",
        "sysfs",
        "personality",
        "lsm_set_self_attr",
    )
)
# These calls fail with ENOSYS, which makes libraries use older calls instead.
UNKNOWN = numbers(
    (
        "clone3",  # its flags are behind a pointer, which a filter cannot read
        "openat2",  # the mode of the file that it creates is also behind a pointer
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "memfd_create",  # its pages are not counted in the memory of any process
    )
)
LAST_REVIEWED = 462  # mseal, Linux 6.10; later calls are treated as unknown

# A file with one of these bits gives its owner's rights to anyone who runs it, even on the host if in a workspace.
_SET_ID = 0o6000
_DEVICE = 0o020000  # this bit is in S_IFCHR and S_IFBLK, and in no other type
_CREATES = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE
_MODES = {  # call: the number of the argument that is a mode
    "chmod": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "mkdir": 1,
    "mkdirat": 2,
    "creat": 1,
    "mknod": 1,
    "mknodat": 2,
}
_OPENS = {"open": 1, "openat": 2}  # call: the number of the argument with the flags, which the mode follows
# Calls that a process may make only about itself (0), because process 1 of the box has the same user.
_ONLY_SELF = ("prlimit64", "sched_setparam", "sched_setaffinity", "sched_setattr")
_OWNERS = {  # call: the arguments that are user or group ids
    "chown": (1, 2),
    "fchown": (1, 2),
    "lchown": (1, 2),
    "fchownat": (2, 3),
    "setuid": (0,),
    "setgid": (0,),
    "setreuid": (0, 1),
    "setregid": (0, 1),
    "setresuid": (0, 1, 2),
    "setresgid": (0, 1, 2),
}
_UNCHANGED = 0xFFFFFFFF  # -1: leave this id unchanged
# Calls that a process may make only about itself or its group (0). Their first argument could also select all processes
# of a user, and all boxes have the same user on the host.
_ONLY_SELF_OR_GROUP = {"setpriority": 2, "ioprio_set": 3}  # call: the `which` that means a user (PRIO_USER, …)
_SCHED_SETSCHEDULER, _SCHED_OTHER = number("sched_setscheduler"), 0
_CLONE, _SOCKET, _SOCKETPAIR = number("clone"), number("socket"), number("socketpair")
_SETSOCKOPT = number("setsockopt")
_IOCTL, _PRCTL, _FCNTL, _RENAMEAT2 = number("ioctl"), number("prctl"), number("fcntl"), number("renameat2")
FALLOCATE = number("fallocate")
MAKE_NODES = tuple((each, _MODES[name]) for name, each in numbers(("mknod", "mknodat")).items())
"""The calls that create special files, and the number of their argument that is a mode."""
_FILE_TYPE = 0o170000  # S_IFMT
_F_SETLEASE, _F_NOTIFY = 1024, 1026  # delay or observe what others do with the files of a workspace
_RENAME_WHITEOUT = 4  # creates a 0:0 device, which mknod may not
_NEGATIVE = 1 << 31
_NAMESPACES = 0x7E020000 | 0x00000080  # every CLONE_NEW*, including CLONE_NEWTIME
_CLONE_PARENT = 0x00008000  # gives the child to the caller's parent, which is outside the box and would not reap it
_SOL_SOCKET, _SO_LINGER = 1, 13
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


def program(only_user: int | None = None) -> bytes:
    """Return the assembled filter that applies to every worker.

    `only_user` is the only user and group id of the worker's user namespace. A change to any other id fails with EPERM,
    as if the id existed. For an id that does not exist, the kernel would return EINVAL, which programs do not expect.
    """
    rules: dict[int, bpf.Ops] = {}
    if only_user is not None:
        for name, call in numbers(_OWNERS).items():
            rules[call] = bpf.only_values(_OWNERS[name], (only_user, _UNCHANGED))
    for refused, answer in ((DENIED, bpf.EPERM), (UNKNOWN, bpf.ENOSYS)):
        rules |= {call: [bpf.answer(answer)] for call in refused.values()}
    rules[_CLONE] = bpf.refuse_bits(0, _NAMESPACES | _CLONE_PARENT)
    # A lingering socket, sent along with a message, would block the receiver that discards it. The call succeeds
    # without an effect.
    rules[_SETSOCKOPT] = bpf.equal(1, _SOL_SOCKET, bpf.equal(2, _SO_LINGER, [bpf.answer(bpf.DONE)]))
    for name, call in numbers(_MODES).items():
        bits = _SET_ID | (_DEVICE if name.startswith("mknod") else 0)
        rules[call] = bpf.refuse_bits(_MODES[name], bits)
    for name, call in numbers(_OPENS).items():
        flags = _OPENS[name]
        checked = bpf.refuse_bits(flags + 1, _SET_ID)
        rules[call] = [bpf.load(flags), bpf.op(bpf.JSET, _CREATES, 0, len(checked)), *checked, bpf.answer(bpf.ALLOW)]
    for call in numbers(_ONLY_SELF).values():
        rules[call] = bpf.only_zero(0)
    for name, call in numbers(_ONLY_SELF_OR_GROUP).items():
        rules[call] = bpf.equal(0, _ONLY_SELF_OR_GROUP[name], _REFUSED, bpf.only_zero(1))
    # ZeroMQ sets the default scheduling policy of each of its threads by id, and aborts if the call fails. The call
    # therefore succeeds without an effect.
    another = bpf.equal(1, _SCHED_OTHER, [bpf.answer(bpf.DONE)], _REFUSED)
    # Allowed for the process itself, and for a negative pid, which the kernel refuses anyway.
    rules[_SCHED_SETSCHEDULER] = bpf.equal(0, 0, _ALLOWED, bpf.when_bits(0, _NEGATIVE, _ALLOWED, another))
    rules[_FCNTL] = bpf.equal(1, _F_SETLEASE, _REFUSED, bpf.equal(1, _F_NOTIFY, _REFUSED))
    rules[_RENAMEAT2] = bpf.refuse_bits(4, _RENAME_WHITEOUT)
    for call in (_SOCKET, _SOCKETPAIR):
        rules[call] = bpf.one_of(2, ALLOWED_PROTOCOLS, bpf.one_of(0, ALLOWED_FAMILIES.values(), _ALLOWED))
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
        *(each for call, mode in MAKE_NODES for each in bpf.when(call, no_sockets(mode))),
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

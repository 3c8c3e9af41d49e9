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

from sandbox.namespace import syscalls

AUDIT_ARCH_X86_64 = 0xC000003E
X32_BIT = 0x40000000

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
    "open_tree_attr": 467,
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
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "modify_ldt": 154,
    "vmsplice": 278,
    "lookup_dcookie": 212,
    "move_pages": 279,
    "migrate_pages": 256,
    "mbind": 237,
    "set_mempolicy": 238,
    "set_mempolicy_home_node": 450,
    # memory that no limit of ours would see without cgroups
    "memfd_secret": 447,
    "shmget": 29,
    "shmat": 30,
    "shmctl": 31,
    "mq_open": 240,
    # the machine
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
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "memfd_create": 319,  # pages that count in no process's memory
}
_CLONE = 56
_SOCKET, _SOCKETPAIR = 41, 53
_IOCTL = 16
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_NAMESPACES = 0x7E020000 | 0x00000080  # every CLONE_NEW*, CLONE_NEWTIME too
ALLOWED_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}

_LD, _JEQ, _JGT, _JSET, _RET = 0x20, 0x15, 0x25, 0x45, 0x06
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2


def supported() -> bool:
    """Whether the table above is for this machine."""
    return platform.machine() == "x86_64"


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def program() -> bytes:
    """The filter, assembled. Each refusal is a compare and a return, so that the offsets stay in view."""
    eperm, enosys = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    ops = [
        _op(_LD, _ARCH),
        _op(_JEQ, AUDIT_ARCH_X86_64, 1, 0),
        _op(_RET, _KILL),
        _op(_LD, _NR),
        _op(_JGT, X32_BIT - 1, 0, 1),
        _op(_RET, enosys),
    ]
    for numbers, answer in ((DENIED, eperm), (UNKNOWN, enosys)):
        for number in numbers.values():
            ops += [_op(_JEQ, number, 0, 1), _op(_RET, answer)]
    ops += [_op(_JEQ, _CLONE, 0, 4), _op(_LD, _ARG0), _op(_JSET, _NAMESPACES, 0, 1), _op(_RET, eperm)]
    ops += [_op(_RET, _ALLOW)]
    families = [_op(_JEQ, family, len(ALLOWED_FAMILIES) - i, 0) for i, family in enumerate(ALLOWED_FAMILIES.values())]
    for number in (_SOCKET, _SOCKETPAIR):
        body = [_op(_LD, _ARG0), *families, _op(_RET, _ERRNO | errno.EAFNOSUPPORT), _op(_RET, _ALLOW)]
        ops += [_op(_JEQ, number, 0, len(body)), *body]
    ops += [
        _op(_JEQ, _IOCTL, 0, 5),
        _op(_LD, _ARG1),
        _op(_JEQ, _TIOCSTI, 1, 0),
        _op(_JEQ, _TIOCLINUX, 0, 1),
        _op(_RET, eperm),
        _op(_RET, _ALLOW),
        _op(_RET, _ALLOW),
    ]
    return b"".join(ops)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def apply(assembled: bytes) -> None:
    """Put the filter on this process and all it will ever start. Needs no_new_privs. Raises OSError."""
    buffer = ctypes.create_string_buffer(assembled, len(assembled))
    prog = _Program(len(assembled) // 8, ctypes.cast(buffer, ctypes.c_char_p))
    syscalls.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(prog))

"""The numbers of system calls on the architectures that the sandbox supports. Standard library only.

The numbers are those of the kernel's ``arch/x86/entry/syscalls/syscall_64.tbl`` and, for aarch64, of
``include/uapi/asm-generic/unistd.h``. Calls newer than Linux 5.0 have the same number on both.
"""

import platform
from collections.abc import Iterable

_ARCHITECTURES = ("x86_64", "aarch64")
_SAME_FROM, _X32 = 424, 0x40000000  # calls from 424 on have one number everywhere; 0x40000000 marks the x32 interface
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*, linux/audit.h
# On x86_64 and aarch64; None where there is no such call.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bind": (49, 200),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "creat": (85, None),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fallocate": (285, 47),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "fcntl": (72, 25),
    "finit_module": (313, 273),
    "fremovexattr": (199, 16),
    "fsconfig": (431, 431),
    "fsetxattr": (190, 7),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "futimesat": (261, None),
    "get_mempolicy": (239, 236),
    "init_module": (175, 105),
    "inotify_add_watch": (254, 27),
    "io_cancel": (210, 3),
    "io_destroy": (207, 1),
    "io_getevents": (208, 4),
    "io_pgetevents": (333, 292),
    "io_setup": (206, 0),
    "io_submit": (209, 2),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_get": (252, 31),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lchown": (94, None),
    "listen": (50, 201),
    "listmount": (458, 458),
    "lookup_dcookie": (212, 18),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "lsm_set_self_attr": (460, 460),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "linkat": (265, 37),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mlock": (149, 228),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "remap_file_pages": (216, 234),
    "removexattr": (197, 14),
    "renameat2": (316, 276),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setdomainname": (171, 162),
    "setgid": (106, 144),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "setregid": (114, 143),
    "setresgid": (119, 149),
    "setresuid": (117, 147),
    "setreuid": (113, 145),
    "settimeofday": (164, 170),
    "setsockopt": (54, 208),
    "setuid": (105, 146),
    "setxattr": (188, 5),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "statmount": (457, 457),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sync": (162, 81),
    "syncfs": (306, 267),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "timer_create": (222, 107),
    "timer_settime": (223, 110),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uprobe": (336, None),
    "uretprobe": (335, None),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
}


def supported() -> bool:
    """Return whether the numbers of this machine's architecture are known."""
    return platform.machine() in _ARCHITECTURES


def audit_architecture() -> int:
    """Return the number by which seccomp filters recognise calls of this machine's architecture."""
    return _AUDIT[platform.machine()]


def numbers(names: Iterable[str], machine: str = "") -> dict[str, int]:
    """Return the numbers of those of the calls that exist on an architecture; by default, that of this machine."""
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        return {}
    index = _ARCHITECTURES.index(machine)
    found = {name: _NUMBERS[name][index] for name in names}
    return {name: number for name, number in found.items() if number is not None}


def from_x86_64(machine: str = "") -> dict[int, int]:
    """Return the numbers on an architecture, by those on x86_64, where the two differ."""
    machine = machine or platform.machine()
    here = numbers(_NUMBERS, machine)
    return {there: here[name] for name, there in numbers(_NUMBERS, "x86_64").items() if here.get(name, there) != there}


def exists(number: int, machine: str) -> bool:
    """Return whether the call with this number on x86_64 exists on an architecture."""
    if machine == "x86_64" or _SAME_FROM <= number < _X32:
        return True
    return any(
        there == number and name in numbers(_NUMBERS, machine) for name, there in numbers(_NUMBERS, "x86_64").items()
    )


def number(name: str) -> int:
    """Return the number of a call that exists on every architecture; -1 if this one is not supported."""
    return numbers((name,)).get(name, -1)

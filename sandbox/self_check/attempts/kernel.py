"""Attempts to make system calls that create namespaces or mounts, access other processes, or were used in escapes.

The numbers of the calls are those of the kernel's ``arch/x86/entry/syscalls/syscall_64.tbl``.
"""

from sandbox.contract import End, Language
from sandbox.self_check.attempts.attempt import FILTERED, Attempt, AttemptFamily

_NO_CAPABILITY = "the call needs a capability, and the box has none; seccomp refuses the call even earlier"
_NO_NAMESPACES = "seccomp refuses every flag that creates a namespace: in a namespace of its own, the job would have all capabilities"
_NO_HANDLES = "seccomp refuses the call, because a file handle bypasses path checks"
_NO_SURFACE = "seccomp refuses the call: no job needs it, and it has a history of privilege escalations"
_UNSEEN_MEMORY = "seccomp refuses the call: no process of the box would be charged for the memory"
_NO_OTHERS = "seccomp refuses the call, which accesses the memory or descriptors of other processes"

# (what is attempted, number, arguments as Python, why it fails)
_EVERYWHERE = (
    ("make a user namespace", 272, "0x10000000", _NO_NAMESPACES),
    ("make a mount namespace", 272, "0x00020000", _NO_NAMESPACES),
    ("make a network namespace", 272, "0x40000000", _NO_NAMESPACES),
    ("make a pid namespace", 272, "0x20000000", _NO_NAMESPACES),
    ("make a time namespace", 272, "0x00000080", _NO_NAMESPACES),
    ("make a user namespace with clone", 56, "0x10000011, 0, 0, 0, 0", _NO_NAMESPACES),
    ("make a user namespace with other bits set in the high half of the flags", 272, "0x7f00000010000000", _NO_NAMESPACES),
    ("make a user namespace with clone3", 435, "struct.pack('11Q', 0x10000000, *[0]*3, 17, *[0]*6), 88",
     "a filter cannot read the flags of clone3, which are behind a pointer, so the call does not exist in the box"),
    ("join the box's own network namespace", 308, "os.open('/proc/self/ns/net', os.O_RDONLY), 0", _NO_CAPABILITY),
    ("change the root folder with chroot", 161, "b'/tmp'", _NO_CAPABILITY),
    ("replace the root folder with pivot_root", 155, "b'/tmp', b'/tmp'", _NO_CAPABILITY),
    ("mount a tmpfs", 165, "b'x', b'/tmp', b'tmpfs', 0, None", _NO_CAPABILITY),
    ("mount proc a second time", 165, "b'proc', b'/tmp', b'proc', 0, None", _NO_CAPABILITY),
    ("mount the file system of the control groups", 165, "b'none', b'/tmp', b'cgroup2', 0, None", _NO_CAPABILITY),
    ("bind-mount the root folder on a writable folder", 165, "b'/', b'/tmp', None, 4096, None", _NO_CAPABILITY),
    ("remount the root folder read-write", 165, "None, b'/', None, 32 | 4096, None", _NO_CAPABILITY),
    ("unmount what covers the host's /proc", 166, "b'/proc', 2", _NO_CAPABILITY),
    ("clone a mount tree", 428, "-100, b'/', 1", _NO_CAPABILITY),
    ("open a file system by its type with fsopen", 430, "b'tmpfs', 0", _NO_CAPABILITY),
    ("move a mount", 429, "-100, b'/proc', -100, b'/tmp', 0", _NO_CAPABILITY),
    ("make the root folder writable with mount_setattr", 442, "-100, b'/', 0, struct.pack('4Q', 0, 1, 0, 0), 32",
     _NO_CAPABILITY),
    ("load a BPF program", 321, "5, struct.pack('2I5Q', 1, 1, 0, 0, 0, 0, 0), 48", _NO_SURFACE),
    ("make a BPF map", 321, "0, struct.pack('4I', 2, 4, 4, 1), 16", _NO_SURFACE),
    ("count kernel events", 298, "struct.pack('2IQ', 1, 112, 0) + bytes(96), 0, -1, -1, 0", _NO_SURFACE),
    ("make the kernel wait at a page fault with userfaultfd", 323, "0", _NO_SURFACE),
    ("bypass the filter with io_uring", 425, "8, ctypes.create_string_buffer(256)",
     "the call does not exist in the box, because io_uring bypasses seccomp"),
    ("put a key into a keyring", 248, "b'user', b'knackbox-@MARK@', b'x', 1, -4", _NO_SURFACE),
    ("join a session keyring", 250, "1, None", _NO_SURFACE),
    ("request a key from the kernel", 249, "b'user', b'knackbox-@MARK@', b'x', -4", _NO_SURFACE),
    ("open a file by its handle", 304, "os.open('/', os.O_RDONLY), struct.pack('Ii8s', 8, 1, b''), 0", _NO_HANDLES),
    ("watch every file of a mount", 300, "4, 0", _NO_CAPABILITY),
    ("load a kernel module", 175, "b'', 0, b''", _NO_CAPABILITY),
    ("load a kernel module from a file", 313, "0, b'', 0", _NO_CAPABILITY),
    ("unload a kernel module", 176, "b'knackbox_absent', 2048", _NO_CAPABILITY),
    ("load another kernel", 246, "0, 0, 0, 0", _NO_CAPABILITY),
    ("restart the machine", 169, "1, 2, 3, 0", _NO_CAPABILITY),  # with magic numbers that no kernel accepts
    ("use a file of the box as swap space", 167, "b'/tmp/absent', 0", _NO_CAPABILITY),
    ("write process accounting to a file", 163, "b'/tmp/absent'", _NO_CAPABILITY),
    ("set a quota", 179, "0x800008, b'/dev/absent', 0, 0", _NO_CAPABILITY),
    ("change the host name", 170, "b'@MARK@', 12", _NO_CAPABILITY),
    ("change the domain name", 171, "b'@MARK@', 12", _NO_CAPABILITY),
    ("set the clock", 227, "0, struct.pack('2q', 1, 0)", _NO_CAPABILITY),
    ("set the time of day", 164, "struct.pack('2q', 1, 0), 0", _NO_CAPABILITY),
    ("get access to all I/O ports", 172, "3", _NO_CAPABILITY),
    ("get access to one I/O port", 173, "0x80, 1, 1", _NO_CAPABILITY),
    ("read the kernel's log", 103, "3, ctypes.create_string_buffer(64), 64", _NO_CAPABILITY),
    ("move memory pages of process 1 to another memory node", 279, "1, 1, ctypes.create_string_buffer(8), 0, ctypes.create_string_buffer(8), 2",
     _NO_OTHERS),
    ("hang up the terminal", 153, "", _NO_CAPABILITY),
)  # fmt: skip

_OWN_FILTER = (
    ("trace process 1", 101, "16, 1, 0, 0", _NO_OTHERS),
    ("read the memory of process 1", 310, "1, 0, 0, 0, 0, 0", _NO_OTHERS),
    ("write the memory of process 1", 311, "1, 0, 0, 0, 0, 0", _NO_OTHERS),
    ("take a descriptor from process 1", 438, "os.pidfd_open(1), 0, 0", _NO_OTHERS),
    ("find out with kcmp whether the job and process 1 share resources", 312, "1, os.getpid(), 0, 0, 0", _NO_OTHERS),
    ("discard the memory of process 1 with process_madvise", 440, "os.pidfd_open(1), 0, 0, 4, 0", _NO_OTHERS),
    ("start a process as a child of the worker's parent, outside the box", 56, "0x8000 | 17, 0, 0, 0, 0",
     "seccomp refuses the flag CLONE_PARENT: nobody outside the box would wait for the process"),
    ("get the handle of a file", 303, "-100, b'/', ctypes.create_string_buffer(64), 0, 0", _NO_HANDLES),
    ("list the mounts of the namespace", 458, "struct.pack('I4xQQ', 24, -1 & (1 << 64) - 1, 0), 0, 0, 0", _NO_SURFACE),
    ("write a local descriptor table", 154, "1, bytes(16), 16", _NO_SURFACE),
    ("move memory pages into a pipe", 278, "0, 0, 0, 0", _NO_SURFACE),
    ("rearrange the pages of a mapping", 216, "0, 0, 0, 0, 0", _NO_SURFACE),
    ("bind memory to a memory node of the machine", 237, "0, 0, 0, 0, 0, 0", _NO_SURFACE),
    ("make an anonymous file", 319, "b'x', 0", _UNSEEN_MEMORY),
    ("make a secret memory area", 447, "0", _UNSEEN_MEMORY),
    ("make System V shared memory", 29, "0, 4096, 0o1600", _UNSEEN_MEMORY),
    ("make a System V semaphore", 64, "0, 1, 0o1600", _UNSEEN_MEMORY),
    ("make a System V queue", 68, "0, 0o1600", _UNSEEN_MEMORY),
    ("make a POSIX queue", 240, "b'knackbox-@MARK@', 0o102, 0o600, 0", _UNSEEN_MEMORY),
    ("set up asynchronous I/O", 206, "1, ctypes.create_string_buffer(8)", _UNSEEN_MEMORY),
    ("make the machine write all cached data to its disks", 162, "", "seccomp refuses the call: one box could slow down the whole machine"),
    ("read the adjustments of the system clock", 159, "ctypes.create_string_buffer(256)", _NO_SURFACE),
    ("turn off address randomisation for the job", 135, "0x0040000", _NO_SURFACE),
    ("set attributes of a security module", 460, "100, 0, 0, 0", _NO_SURFACE),
    ("make a system call of the x32 interface", 0x40000000 + 39, "", "seccomp refuses every call number of the x32 interface"),
    ("make a system call too new to have been reviewed for the filter", 463, "-100, b'/', 0, b'user.x', 0, 0",
     "seccomp refuses every call whose number is above the last one that was reviewed"),
)  # fmt: skip

_INT_80 = """
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
if ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0:
    worked()
"""
# Install a filter with a single instruction that allows everything, then make a call that the box's filter refuses.
_FILTER_OF_ITS_OWN = """
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
program = Program(1, struct.pack("<HBBI", 6, 0, 0, 0x7fff0000))
call(157, 22, 2, ctypes.byref(program))
reach(272, 0x10000000)
"""
_LATE_THREAD = """
said = []
def other():
    try:
        reach(272, 0x10000000)
    except OSError as problem:
        said.append(problem)
thread = threading.Thread(target=other); thread.start(); thread.join()
raise said[0]
"""
_AFTER_EXEC = """
code = "import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x10000000) == 0)"
if subprocess.run([sys.executable, "-c", code]).returncode == 1:
    worked()
"""


def _call(rows: tuple[tuple[str, int, str, str], ...], only: frozenset[str]) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            AttemptFamily.KERNEL,
            attempt,
            Language.PYTHON,
            f"reach({number}, {arguments})",
            why,
            only=only,
        )
        for attempt, number, arguments, why in rows
    )


ATTEMPTS = (
    *_call(_EVERYWHERE, frozenset()),
    *_call(_OWN_FILTER, FILTERED),
    Attempt(
        AttemptFamily.KERNEL,
        "bypass the filter with a 32-bit system call, whose number has another meaning",
        Language.PYTHON,
        _INT_80,
        "the filter kills a process that makes a system call of another architecture",
        ends=(End.POLICY, End.ERROR),
        only=FILTERED,
        machine="x86_64",
    ),
    Attempt(
        AttemptFamily.KERNEL,
        "install another filter, which allows everything",
        Language.PYTHON,
        _FILTER_OF_ITS_OWN,
        "the kernel uses the strictest result of all filters",
        machine="x86_64",
    ),
    Attempt(
        AttemptFamily.KERNEL,
        "from a new thread, make a system call that the filter refuses",
        Language.PYTHON,
        _LATE_THREAD,
        "a filter is inherited by every thread",
        machine="x86_64",
    ),
    Attempt(
        AttemptFamily.KERNEL,
        "from another program, make a system call that the filter refuses",
        Language.PYTHON,
        _AFTER_EXEC,
        "a filter survives exec and cannot be removed",
    ),
)

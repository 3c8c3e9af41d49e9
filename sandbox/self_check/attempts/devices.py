"""Attempts to misuse devices of the machine or of the box."""

from dataclasses import replace

from sandbox.contract import Language
from sandbox.self_check.attempts.attempt import LIMITS, NAMESPACE, Attempt, AttemptFamily

_ABSENT = "the box's /dev holds null, zero, full, random, urandom, tty and its own pseudo-terminals, and nothing else"
_NO_NODES = "creating a device needs CAP_MKNOD on the host, and the box's file systems are mounted nodev"

_ROWS = (
    ("create a character device for the machine's memory",
     "os.mknod('/tmp/mem', 0o20600, os.makedev(1, 1))\nworked()", _NO_NODES),
    ("create a block device for a disk", "os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0))\nworked()", _NO_NODES),
    ("create a device in /dev/shm", "os.mknod('/dev/shm/m', 0o20600, os.makedev(1, 1))\nworked()", _NO_NODES),
    ("open the devices for memory, ports or the kernel log", """
for name in ('mem', 'port', 'kmsg', 'kmem'):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        refused(lambda: os.open('/dev/' + name, flags))
""", _ABSENT),
    ("open a disk", """
for path in glob.glob('/dev/[shvx]d[a-z]*') + glob.glob('/dev/nvme*') + glob.glob('/dev/dm-*'):
    worked(path)
""", _ABSENT),
    ("open any block device", """
import stat
for folder, _, names in os.walk('/dev'):
    for name in names:
        if stat.S_ISBLK(os.lstat(os.path.join(folder, name)).st_mode): worked(name)
""", _ABSENT),
    ("open devices that enlarge the attack surface", """
for name in ('fuse', 'kvm', 'net/tun', 'loop-control', 'mapper/control', 'vhost-net', 'vhost-vsock', 'uinput',
             'userfaultfd', 'cuse', 'snapshot', 'autofs', 'dma_heap/system', 'udmabuf', 'rfkill', 'btrfs-control'):
    refused(lambda: os.open('/dev/' + name, os.O_RDWR))
""", _ABSENT),
    ("open the console or a terminal of the host", """
for name in ('console', 'tty', 'tty0', 'tty1', 'ttyS0', 'vcs', 'vcsa1'):
    refused(lambda: os.open('/dev/' + name, os.O_RDWR | os.O_NOCTTY))
""", _ABSENT),
    ("type into the terminal the engine was started in",
     "for n in (0, 1, 2): refused(lambda: fcntl.ioctl(n, 0x5412, b'x'))",
     "no descriptor is a terminal, the worker is in a session of its own, and seccomp refuses TIOCSTI"),
    ("open a controlling terminal", "os.close(os.open('/dev/tty', os.O_RDWR))\nworked()",
     "the worker is in a session of its own, which has no terminal"),
    ("open a pseudo-terminal of the host", """
for path in glob.glob('/dev/pts/[0-9]*'): refused(lambda: os.open(path, os.O_RDWR | os.O_NOCTTY))
""", "the box has pseudo-terminals of its own, and none is open when it starts"),
    ("type into a pseudo-terminal of the box", "fcntl.ioctl(os.openpty()[1], 0x5412, b'x')\nworked()",
     "seccomp refuses TIOCSTI on every terminal"),
    ("load a line discipline", """
for number in (1, 2, 3, 5, 13, 21, 29): refused(lambda: fcntl.ioctl(os.openpty()[1], 0x5423, struct.pack('i', number)))
""", "seccomp refuses TIOCSETD, which loads kernel modules"),
    ("redirect the machine's console to the box", "fcntl.ioctl(os.openpty()[1], 0x541D)\nworked()", "seccomp refuses TIOCCONS"),
    ("credit entropy to the machine's random number generator", """
f = os.open('/dev/urandom', os.O_RDONLY)
fcntl.ioctl(f, 0x40045201, struct.pack('i', 256))
worked()
""", "RNDADDTOENTCNT needs CAP_SYS_ADMIN"),
    ("reseed the machine's random number generator", "fcntl.ioctl(os.open('/dev/random', os.O_RDONLY), 0x5207)\nworked()",
     "RNDRESEEDCRNG needs CAP_SYS_ADMIN"),
    ("change the mode of /dev/null", "os.chmod('/dev/null', 0)\nif not os.stat('/dev/null').st_mode & 0o777: worked()", "the device file belongs to root and is mounted read-only"),
    ("replace /dev/null with a file", "os.unlink('/dev/null')\nworked()", "/dev is read-only"),
    ("add a file to /dev", "os.close(os.open('/dev/x', os.O_CREAT | os.O_WRONLY))\nworked()", "/dev is read-only"),
)  # fmt: skip

_EVERY_TERMINAL = """
held = []
try:
    while len(held) < 200:
        terminal, other = os.openpty()
        held.append(terminal)
        os.close(other)
except OSError: pass
if len(held) > 64: worked(len(held))
"""

ATTEMPTS = (
    *(Attempt(AttemptFamily.DEVICES, attempt, Language.PYTHON, code, why) for attempt, code, why in _ROWS),
    Attempt(
        AttemptFamily.DEVICES,
        "take many of the machine's pseudo-terminals",
        Language.PYTHON,
        _EVERY_TERMINAL,
        "the box has its own devpts, which allows at most 64 pseudo-terminals",
        limits=replace(LIMITS, open_files=256),
        only=NAMESPACE,
    ),
)

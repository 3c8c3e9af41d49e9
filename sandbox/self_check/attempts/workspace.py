"""Attempts to misuse a workspace, which is a folder of the host that the box may write to."""

from sandbox.contract import End, Language, Writes
from sandbox.self_check.attempts.attempt import FILTERED, NAMESPACE, Attempt, AttemptFamily

_RIGHTS = "seccomp refuses every file mode that would give the owner's rights to anyone who runs the file on the host"
_DEVICES = "creating a device needs CAP_MKNOD, and seccomp refuses the file mode of a device"
_SOCKETS = "seccomp refuses to create a socket file, and Landlock refuses to bind a socket to a path"
_SERVERS = "a job with a workspace cannot create Unix sockets that could connect to an address"
_INSIDE = "the workspace is a mount of its own, and above it there is only the box's root"
_HELD = "seccomp refuses leases, because the host must be able to open files of the workspace while a job runs"

# (what is attempted, code, why it fails, whether it only reads, whether it is for backends with our own filter)
_ROWS = (
    ("follow a link in the workspace to the host", "print(open('link').read())", _INSIDE, True, False),
    ("climb out of the workspace through a link", "print(open('up@CANARY@').read())", _INSIDE, True, False),
    ("climb out of the workspace with ..", "print(open('../canary').read())", _INSIDE, True, False),
    ("climb out of the workspace from a descriptor of its folder",
     "f = os.open('.', os.O_PATH)\nprint(open(os.open('../canary', os.O_RDONLY, dir_fd=f)).read())", _INSIDE, True,
     False),
    ("climb out of the workspace from an open folder that was moved", """
os.makedirs('a/b'); f = os.open('a/b', os.O_RDONLY); os.rename('a/b', 'b'); os.fchdir(f)
print(open('../../canary').read())
""", _INSIDE, True, False),
    ("make a hard link in the workspace to a file of the box's root", "os.link('/etc/passwd', 'planted')\nworked()", "a hard link cannot cross mounts",
     False, False),
    ("leave a set-uid program", "open('s', 'w').close(); os.chmod('s', 0o4755)", _RIGHTS, False, True),
    ("leave a set-gid program", "open('s', 'w').close(); os.chmod('s', 0o2755)", _RIGHTS, False, True),
    ("create a set-uid program with open", "os.close(os.open('s', os.O_CREAT | os.O_WRONLY, 0o4777))", _RIGHTS, False, True),
    ("create a set-uid program with creat", "os.umask(0); call(85, b's', 0o6777)", _RIGHTS, False, True),
    ("create a set-uid program with mknod", "os.mknod('s', 0o4755 | 0o100000)", _RIGHTS, False, True),
    ("create an unnamed set-uid program, then give it a name", """
f = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o4755)
call(265, -100, f'/proc/self/fd/{f}'.encode(), -100, b's', 0x400)
""", _RIGHTS, False, True),
    ("leave a set-uid program with fchmod", "f = os.open('s', os.O_CREAT | os.O_WRONLY); os.fchmod(f, 0o4755)", _RIGHTS, False, True),
    ("leave a set-uid program with fchmodat", "open('s', 'w').close(); call(268, -100, b's', 0o4755)", _RIGHTS, False, True),
    ("leave a set-uid program with fchmodat2", "open('s', 'w').close(); call(452, -100, b's', 0o4755, 0)", _RIGHTS, False, True),
    ("leave a set-uid program with openat2", "call(437, -100, b's', struct.pack('3Q', os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24)",
     _RIGHTS, False, True),
    ("leave a set-uid program by a mode that also has one of the high 32 bits set", "open('s', 'w').close(); call(90, b's', (1 << 40) | 0o4755)",
     _RIGHTS, False, True),
    ("leave a set-gid folder", "os.mkdir('s', 0o2777); os.chmod('s', 0o2777)", _RIGHTS, False, True),
    ("leave a file with capabilities", """
open('s', 'w').close()
os.setxattr('s', 'security.capability', struct.pack('<5I', 0x02000001, 0xffffffff, 0, 0xffffffff, 0))
worked()
""", "writing file capabilities needs CAP_SETFCAP", False, False),
    ("leave a trusted extended attribute", "open('s', 'w').close(); os.setxattr('s', 'trusted.x', b'x')\nworked()",
     "setting a trusted attribute needs CAP_SYS_ADMIN", False, False),
    ("leave a character device", "os.mknod('s', 0o20666, os.makedev(1, 1))\nworked()", _DEVICES, False, False),
    ("leave a block device", "os.mknod('s', 0o60666, os.makedev(8, 0))\nworked()", _DEVICES, False, False),
    ("leave a socket file", "os.mknod('s', 0o140666)\nworked()", _SOCKETS, False, False),
    ("leave a socket file created with a raw mknod call", "call(133, b's', 0o140666, 0)\nworked()", _SOCKETS, False, False),
    ("leave a socket file by binding one socket of a pair to a path", "socket.socketpair()[0].bind('s')\nworked()", _SOCKETS, False, False),
    ("reserve space on the host's disk without writing to it", """
f = os.open('s', os.O_CREAT | os.O_RDWR)
call(285, f, 0, 0, 4 << 20)
worked()
""", "seccomp refuses to reserve disk space, because no process is charged for it", False, False),
    ("leave a whiteout (a device that hides a file of an overlay)", "os.mknod('s', 0o20666, 0)", _DEVICES, False, True),
    ("rename a file so that it leaves a whiteout (a device that hides a file of an overlay)", "open('a', 'w').close(); call(316, -100, b'a', -100, b'b', 4)",
     "seccomp refuses RENAME_WHITEOUT, which creates a whiteout even without the right to create devices", False, True),
    ("leave a file that belongs to root", "open('s', 'w').close(); os.chown('s', 0, 0)\nworked()", "changing an owner needs CAP_CHOWN", False,
     False),
    ("reach a server of the host through its socket file", "socket.socket(socket.AF_UNIX).connect('server')\nworked()",
     _SERVERS, True, True),
    ("reach a datagram server of the host through its socket file",
     "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect('log')\nworked()", _SERVERS, True, True),
    ("reach a datagram server of the host by reconnecting one socket of a pair",
     "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.connect('log'); a.send(b'x')", _SERVERS, True,
     True),
    ("reach a datagram server of the host by sending to its address from one socket of a pair",
     "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendto(b'x', 'log')", _SERVERS, True, True),
    ("reach a datagram server of the host by sending to its address from one socket of a raw pair",
     "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)\na.sendto(b'x', 'log')", _SERVERS, True, True),
    ("reach a server of the host by reconnecting one socket of a stream pair",
     "a, b = socket.socketpair()\nb.close(); a.shutdown(2); a.connect('server')\nworked()",
     "the sockets of a connected pair stay connected to each other", True, True),
    ("listen on a socket that the host can reach", "s = socket.socket(socket.AF_UNIX); s.bind('planted'); s.listen(); hold()",
     _SERVERS, False, True),
    ("listen on one socket of a pair, bound to a path",
     "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.bind('planted'); hold()", _SERVERS, False, True),
    ("listen on one socket of a stream pair, bound to a path",
     "a, b = socket.socketpair()\na.bind('planted'); a.listen(); hold()",
     "the sockets of a connected pair stay connected to each other, and cannot listen", False, True),
    ("listen on a socket file created by mknod", "os.mknod('planted', 0o140600); hold()",
     "nobody listens on a socket file that was not created by bind", False, False),
    ("use a lease to keep the host from opening a file", """
signal.signal(signal.SIGIO, signal.SIG_IGN)
f = os.open('file', os.O_RDWR); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
hold()
""", _HELD, False, True),
    ("make the workspace immutable", "f = os.open('.', os.O_RDONLY); fcntl.ioctl(f, 0x40086602, struct.pack('l', 0x10))\nworked()",
     "making a folder immutable needs CAP_LINUX_IMMUTABLE", False, False),
    ("mount over the workspace", "call(165, b'x', b'/work', b'tmpfs', 0, None)\nworked()", "mounting needs CAP_SYS_ADMIN", False, False),
    ("run set-uid files in the workspace", "if not os.statvfs('.').f_flag & os.ST_NOSUID: worked()", "the workspace is mounted nosuid", True,
     True),
    ("use devices in the workspace", "if not os.statvfs('.').f_flag & 4: worked()", "the workspace is mounted nodev", True, True),
)  # fmt: skip

_NO_WRITES = "the mount is read-only, and Landlock also refuses writes"
_READ_ONLY = (
    ("write to a read-only workspace", "open('planted-@MARK@', 'w')\nworked()", _NO_WRITES, False, False),
    ("change a file of a read-only workspace", "os.open('file', os.O_RDWR)\nworked()", _NO_WRITES, False, False),
    ("write to a read-only workspace through a descriptor opened for reading",
     "f = os.open('file', os.O_RDONLY)\nos.open(f'/proc/self/fd/{f}', os.O_RDWR)\nworked()", _NO_WRITES, False, False),
    ("change the mode of a file of a read-only workspace", "os.chmod('file', 0o600)\nif os.stat('file').st_mode & 0o777 == 0o600: worked()", _NO_WRITES, False, False),
    ("delete a file of a read-only workspace", "os.unlink('link')\nworked()", _NO_WRITES, False, False),
    ("make a read-only workspace writable", "call(442, -100, b'/work', 0, struct.pack('4Q', 0, 1, 0, 0), 32)\nworked()",
     "mount_setattr needs CAP_SYS_ADMIN, and the read-only flag is locked", False, False),
    ("find a second, writable mount of a read-only workspace", """
for line in open('/proc/self/mountinfo'):
    place = line.split()[4]
    refused(lambda: os.close(os.open(place + '/planted-@MARK@', os.O_CREAT | os.O_WRONLY))) if os.path.exists(
        place + '/canary') or os.path.lexists(place + '/link') else None
""", _NO_WRITES, False, False),
    ("reach a datagram server of the host in a read-only workspace",
     "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendto(b'x', 'log')", _SERVERS, True, True),
)  # fmt: skip

_LAYERED = "writes go to the box's own tmpfs, and the original folder is mounted read-only"
_COPIED = (
    ("write to the original of a copied workspace", """
for place in glob.glob('/box/*') + [line.split()[4] for line in open('/proc/self/mountinfo')]:
    if place != '/work' and os.path.lexists(place + '/link'):
        refused(lambda: os.close(os.open(place + '/file', os.O_RDWR)))
        refused(lambda: os.close(os.open(place + '/planted-@MARK@', os.O_CREAT | os.O_WRONLY)))
""", _LAYERED, False, True),
    ("write directly to the layer that holds the changes to a copy", """
for place in ('/box/layer', '/box/scratch'):
    refused(lambda: os.close(os.open(place + '/x', os.O_CREAT | os.O_WRONLY)))
""", _LAYERED, False, True),
    ("set the overlayfs attribute by which a folder hides the original folder", "os.mkdir('d'); os.setxattr('d', 'user.overlay.opaque', b'y')\n"
     "if os.getxattr('/box/layer/d', 'user.overlay.opaque') == b'y': worked()", "the overlay hides its own attributes from the box",
     False, True),
    ("set the overlayfs attribute that redirects a file to another path", "open('x', 'w').close(); os.setxattr('x', 'user.overlay.redirect', b'/../../etc/passwd')\n"
     "if os.getxattr('/box/layer/x', 'user.overlay.redirect'): worked()", "the overlay hides its own attributes from the box", False,
     True),
    ("leave a set-uid program in a copy of a workspace", "open('s', 'w').close(); os.chmod('s', 0o4755)\nworked()", _RIGHTS, False, True),
    ("follow a link in a copy of a workspace to the host", "print(open('link').read())", _INSIDE, True, True),
    ("climb out of a copy of a workspace", "print(open('../canary').read())", _INSIDE, True, True),
    ("change the original of a copied workspace through an open file", """
f = os.open('file', os.O_RDONLY); m = os.open('file', os.O_RDWR); os.write(m, b'changed-@MARK@')
""", _LAYERED, False, True),
)  # fmt: skip


def _only(writes: Writes, code: str) -> frozenset[str]:
    """Return the names of the backends to make the attempt on.

    Docker cannot copy a workspace, and mounts it without the flags nosuid and nodev. It relies on no_new_privs and the
    device rules instead.
    """
    return NAMESPACE if writes is Writes.COPY or "statvfs" in code else FILTERED


ATTEMPTS = tuple(
    Attempt(
        AttemptFamily.WORKSPACE,
        attempt,
        Language.PYTHON,
        code,
        why,
        ends=(End.OK, End.ERROR),
        workspace=writes,
        harmless=looks,
        only=_only(writes, code) if own_filter else frozenset(),
    )
    for writes, rows in ((Writes.THROUGH, _ROWS), (Writes.NO, _READ_ONLY), (Writes.COPY, _COPIED))
    for attempt, code, why, looks, own_filter in rows
)

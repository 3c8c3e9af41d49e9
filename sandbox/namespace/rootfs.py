"""Makes the read-only root folder that all boxes of a template share.

It shows the system's programs and libraries, the running Python, and the packages of the environment. It does not show
/home, /root, /sys, /var, /run, or the host's /etc, /tmp and /dev. This code runs in the template before the first box
is forked. Standard library only.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandbox.bridge import plan as bridge_plan
from sandbox.linux import syscalls
from sandbox.linux.syscalls import MOUNT_ATTR_NODEV, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY
from sandbox.wire.paths import AUTHORITIES, AUTHORITY, PACKAGES, TMP, WORK

BOX = "/box"  # where a box mounts the tmpfs that contains its /tmp, /work and /dev/shm
BOX_ID = 1000

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
# /dev/tty is the controlling terminal of the process that opens it; a box has only its own pseudo-terminals.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
PTS = "/dev/pts"  # where a box mounts its own pseudo-terminals
_NOBODY = 65_534  # the owner shown for files whose owner is not mapped in the user namespace
_ETC = {
    "passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\nbox:x:{BOX_ID}:{BOX_ID}:box:{TMP}:/bin/bash\n"
    f"nobody:x:{_NOBODY}:{_NOBODY}:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": f"root:x:0:\ntty:x:5:\nbox:x:{BOX_ID}:\nnogroup:x:{_NOBODY}:\n",
    "hosts": "127.0.0.1 localhost box\n::1 localhost\n",
    "hostname": "box\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
    "resolv.conf": "",
    # Empty, except in boxes with secrets (`sandbox.namespace.outlets`).
    **{path.removeprefix("/etc/"): "" for path in (AUTHORITY, AUTHORITIES)},
}
# Public, and needed to find libraries, certificates, fonts and the ports of services, and to identify the system.
_ETC_SHOWN = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "ssl/certs",
    "localtime",
    "mime.types",
    "fonts",
    "services",
    "protocols",
    "os-release",
    "debian_version",
    "timezone",
    "shells",
    "terminfo",
    "inputrc",
)


@dataclass(frozen=True)
class RootPlan:
    """The contents of a root folder. `packages` are site-packages folders of the host, shown as /env/0, /env/1, …"""

    packages: tuple[str, ...] = ()

    def shown_packages(self) -> tuple[str, ...]:
        return tuple(f"{PACKAGES}/{i}" for i in range(len(self.packages)))


def build(plan: RootPlan) -> None:
    """Enter a new mount namespace with a minimal root folder.

    Raises:
        OSError: A mount fails.
    """
    syscalls.unshare(syscalls.CLONE_NEWNS)
    # Mounts of the host must not propagate here, nor ours to the host.
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    trees = [(syscalls.open_tree(source), target) for source, target in _shown(plan)]
    links = [(name, os.readlink(name)) for name in _SYSTEM if os.path.islink(name)]
    clients = bridge_plan.read_clients()
    devices = [(syscalls.open_tree(f"/dev/{name}"), name) for name in _DEVICES]
    new = TMP  # a folder every machine has; it is covered in this namespace only
    syscalls.mount("tmpfs", new, "tmpfs", syscalls.MS_NOSUID, "size=4m,nr_inodes=4096,mode=0755")
    for target, text in links:
        os.symlink(text, new + target)
    for tree, target in trees:
        source_is_folder = os.path.isdir(f"/proc/self/fd/{tree}")
        _attach(tree, new + target, folder=source_is_folder, attributes=MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV)
    for folder in ("dev/shm", PTS[1:], "proc", TMP[1:], WORK[1:], BOX[1:], "etc", "root", "home", "var", "run"):
        os.makedirs(f"{new}/{folder}", exist_ok=True)
    bridge_plan.install(clients, new)
    for tree, name in devices:
        # Read-only protects the mode of the node; the device can still be written to.
        _attach(tree, f"{new}/dev/{name}", folder=False, attributes=MOUNT_ATTR_RDONLY)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1")):
        os.symlink(target, f"{new}/dev/{name}")
    os.symlink("/proc/self/fd/2", f"{new}/dev/stderr")
    os.symlink("pts/ptmx", f"{new}/dev/ptmx")
    for name, text in _ETC.items():
        with open(f"{new}/etc/{name}", "w", encoding="ascii") as out:
            out.write(text)
    # A user namespace may only mount its own /proc while it can see a complete one.
    syscalls.mount("proc", f"{new}/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    os.chdir(new)
    syscalls.pivot_root(".", ".")
    syscalls.unmount(".")
    os.chdir("/")
    syscalls.mount("", "/", "", syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | syscalls.MS_NOSUID)


def _shown(plan: RootPlan) -> Iterator[tuple[str, str]]:
    """Yield (host path, path in the box) for everything that is shown, without duplicates."""
    for path in _SYSTEM:
        if os.path.isdir(path) and not os.path.islink(path):
            yield path, path
    prefix = os.path.realpath(sys.base_prefix)
    if not _below(prefix, _SYSTEM):
        yield prefix, prefix
    for name in _ETC_SHOWN:
        if os.path.exists(f"/etc/{name}"):
            yield os.path.realpath(f"/etc/{name}"), f"/etc/{name}"
    yield from zip(plan.packages, plan.shown_packages(), strict=True)


def _below(path: str, parents: Sequence[str]) -> bool:
    return any(path == p or path.startswith(p + "/") for p in parents)


def _attach(tree: int, target: str, *, folder: bool, attributes: int) -> None:
    if folder:
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    syscalls.mount_setattr(tree, attributes | MOUNT_ATTR_NOSUID)
    syscalls.move_mount(tree, target)
    os.close(tree)

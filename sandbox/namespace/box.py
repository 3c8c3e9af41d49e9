"""Process 1 of a box: isolates itself, waits for one job, has a worker run it, sends the answer, and exits.

Process 1 is trusted: the job's code runs in a child (`sandbox.namespace.confine`) that has no capabilities, a seccomp
filter and Landlock rules, and that can neither signal nor inspect this process. When process 1 exits, the kernel kills
everything left in the box. Standard library only.
"""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from sandbox import worker
from sandbox.linux import answer, attend, landlock, syscalls
from sandbox.linux.cgroups import Group
from sandbox.linux.watch import TreeWatch
from sandbox.namespace import confine, inlets, layer, outlets, rootfs
from sandbox.wire import frames, paths

DEFAULT_DISK_BYTES = 128 << 20  # the default of `sandbox.contract.Limits`; only other sizes need a remount
_INODES = 65_536
_TAKEN_WAIT_S = 0.05
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
# Per-namespace limits on kernel resources that the whole machine shares and control groups of version 1 do not count:
# inotify queues, and the buffers of each TCP socket (minimum, default, maximum, in bytes).
_KERNEL_POOLS = {
    "user/max_inotify_instances": "4",
    "user/max_inotify_watches": "8192",
    "net/ipv4/tcp_rmem": "4096 16384 131072",
    "net/ipv4/tcp_wmem": "4096 16384 131072",
}
# /work is not in this list, because the job decides whether it is writable. Rules also apply to later mounts on a path.
WRITABLE = (paths.TMP, "/dev/shm", rootfs.PTS, "/dev/null", "/dev/zero", "/dev/full", "/dev/tty")  # noqa: S108  (in the box)
_PSEUDO_TERMINALS = "newinstance,ptmxmode=0666,mode=0620,max=64"  # their number is limited for the whole machine


@dataclass(frozen=True)
class NamespaceBoxPlan:
    """What each box of a template is created with, the same for all of them.

    Attributes:
        filters: The assembled seccomp filters.
        landlock_abi: The version of Landlock; 0 if there is none.
        fork: Forks this process, as `os.fork` does.
    """

    filters: confine.NamespaceFilters
    landlock_abi: int
    fork: Callable[[], int]


def main(plan: NamespaceBoxPlan, channel: socket.socket, given: tuple[int, int, int], group: Group | None) -> NoReturn:
    """Run one job and exit. Never returns.

    Args:
        plan: What the box is created with.
        channel: The socket that is connected to the engine.
        given: The descriptors of stdout and stderr, and a descriptor that delivers a byte once the parent has written
            the id maps.
        group: The box's control group, if there is one.
    """
    out, err, mapped = given
    started = False
    try:
        score = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)  # opened while /proc is still writable
        _isolate(mapped)
        rules = landlock.ruleset(plan.landlock_abi, WRITABLE) if plan.landlock_abi else -1
        watch = TreeWatch(rootfs.BOX, group)
        with _killed_first(score):
            confinement = confine.NamespaceConfinement(plan.filters, plan.landlock_abi, rules, group)
            running = confine.start(confinement, out, err, plan.fork)
        if group:
            group.stay_out()
        if not confine.readable(channel.fileno()):
            _rehearse(watch, running.pid, group)
        frame, tree = frames.receive(channel)
        header = frames.header_of(frame)
        _mount(header, tree)
        if header["bridge"]:
            address, port = header["bridge"]
            outlets.open_bridge(address, port, channel)
        if header["egress"]:
            outlets.open_all(header["egress"], channel)
        carrier = inlets.open_all(header["inlets"], channel) if header["inlets"] else None
        started = True
        running.hand_over(frame)
        syscalls.drop_capabilities()
        if carrier:
            carrier.start()
        if group:
            group.bound(header["limits"])
        watch.begin(header["limits"], running.pid, paths.WORK if header["mount"] == "through" else "")
        ended = attend.attend(running, channel, header["limits"]["wall_s"], watch, patient=carrier is not None)
        channel.sendall(worker.pack(*answer.conclude(header, ended, watch, _changes(header))))
        confine.readable(channel.fileno(), _TAKEN_WAIT_S)  # the engine closes it once it has the answer
    except EOFError:  # the engine is gone, or does not need this box
        pass
    except BaseException as problem:  # noqa: BLE001  (must not return into the template's code)
        with contextlib.suppress(OSError):
            failure = {"kind": "failed", "started": started, "why": f"{type(problem).__name__}: {problem}"[:1000]}
            channel.sendall(worker.pack(failure))
    finally:
        os._exit(0)


def _changes(header: worker.Message) -> tuple[layer.Listing, bytes]:
    """Return the changes that the job made to its copy of the workspace; empty if the job has no copy."""
    return layer.changes() if header["mount"] == "copy" else ([], b"")


@contextlib.contextmanager
def _killed_first(score: int) -> Iterator[None]:
    """Make processes forked within the block the first that the kernel kills when memory runs out.

    `score` is a descriptor of this process's ``oom_score_adj``.
    """
    before = os.read(score, 16).strip()
    os.write(score, b"1000")
    yield
    os.write(score, before)
    os.close(score)


def _isolate(mapped: int) -> None:
    if os.read(mapped, 1) != b"m":
        raise EOFError
    os.close(mapped)
    for name, bound in _KERNEL_POOLS.items():
        with open(f"/proc/sys/{name}", "w", encoding="ascii") as setting:
            setting.write(bound)
    with contextlib.suppress(PermissionError):  # the user namespace of an ordinary user may not change groups
        os.setgroups([])
    os.setresgid(rootfs.BOX_ID, rootfs.BOX_ID, rootfs.BOX_ID)
    os.setresuid(rootfs.BOX_ID, rootfs.BOX_ID, rootfs.BOX_ID)
    socket.sethostname("box")
    _loopback_up()
    quiet = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("tmpfs", rootfs.BOX, "tmpfs", quiet, _tmpfs_options(DEFAULT_DISK_BYTES))
    for name, target in (("tmp", paths.TMP), ("work", paths.WORK), ("shm", "/dev/shm")):  # noqa: S108  (in the box)
        os.mkdir(f"{rootfs.BOX}/{name}", 0o700)
        syscalls.mount(f"{rootfs.BOX}/{name}", target, "", syscalls.MS_BIND)
    syscalls.mount("devpts", rootfs.PTS, "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, _PSEUDO_TERMINALS)
    # Read-only, because otherwise only the user id would protect the kernel settings below /proc/sys.
    syscalls.mount("proc", "/proc", "proc", quiet | syscalls.MS_NOEXEC | syscalls.MS_RDONLY)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)  # the worker has the same user id: keep it out of /proc/1
    syscalls.drop_bounding_set()
    os.umask(0o077)


def _tmpfs_options(size: int) -> str:
    return f"size={size},nr_inodes={_INODES},mode=0700"


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def _rehearse(watch: TreeWatch, worker_pid: int, group: Group | None) -> None:
    """Run the code that handles jobs once, so that pages shared with the worker are copied before a job arrives."""
    limits = {"wall_s": 1.0, "cpu_s": 1e6, "memory_bytes": 1 << 60, "disk_bytes": 1}
    limits |= {"processes": 1 << 20, "threads": 1 << 20}
    if group:
        group.bound(limits)
    job: worker.Message = {"language": "python", "call": None, "cwd": paths.TMP, "collect": [], "mount": ""}
    frames.header_of(worker.pack(job))
    ended = attend.rehearse(watch, limits, worker_pid)
    worker.pack(*answer.conclude(job, ended, watch, _changes(job)))


def _mount(header: worker.Message, tree: int) -> None:
    """Mount the parts that depend on the job: a disk of the size that it may use, and its workspace."""
    disk = header["limits"]["disk_bytes"]
    if disk != DEFAULT_DISK_BYTES:
        flags = syscalls.MS_REMOUNT | syscalls.MS_NOSUID | syscalls.MS_NODEV
        syscalls.mount("tmpfs", rootfs.BOX, "tmpfs", flags, _tmpfs_options(disk))
    if tree >= 0:
        if header["mount"] == "copy":
            layer.mount(tree)
        else:
            syscalls.move_mount(tree, paths.WORK)
        os.close(tree)

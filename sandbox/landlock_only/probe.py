"""Determines which protections the `landlock` backend enforces on this machine, by trying them in a new process."""

import os
import subprocess
import sys
from pathlib import Path

from sandbox.contract import Protection, Protections, State
from sandbox.landlock_only import machine, rules
from sandbox.linux import landlock
from sandbox.linux.protections import control_group, seccomp_filter

_SOURCE = str(Path(__file__).parents[2])
# A program that restricts itself like a worker and prints the layer that does not work. It affects only itself.
_TRY = """
import os, socket, sys
sys.path.insert(0, sys.argv[1])
uid = int(sys.argv[2])
from sandbox.landlock_only import filters, rules
from sandbox.landlock_only.family import ProcessFamily
from sandbox.linux import landlock, seccomp, syscalls
layer = "landlock"
try:
    ProcessFamily.found()
    layer = "unprivileged user"
    if uid >= 0:
        syscalls.drop_bounding_set()
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    layer = "no capabilities"
    syscalls.drop_capabilities()
    layer = "landlock"
    landlock.restrict(rules.of_worker(landlock.abi(), ["/usr"], []))
    try:
        os.listdir("/")
        raise OSError("a forbidden folder could be listed")
    except PermissionError:
        pass
    layer = "seccomp"
    seccomp.apply(seccomp.program())
    seccomp.apply(filters.without_namespaces())
    try:
        socket.socket()
        raise OSError("a socket could be made")
    except PermissionError:
        pass
except OSError as problem:
    print(layer, problem, sep="\\t")
"""
_TRY_WAIT_S = 20
_AS_A_USER = "Start Knackbox as an ordinary user instead of root."
_WITHOUT = {
    "user namespace": "a job runs as a user of this machine, and its files belong to that user",
    "pid namespace": "a job can see which pids exist on this machine, but cannot open or signal other processes",
    "mount namespace": "a job that knows the path of a file on this machine can read the file's size and times, but "
    "no contents and no names in folders; it cannot use /tmp, /dev/shm and pseudo-terminals, which are shared",
    "network namespace": "a job cannot create sockets, so it has no loopback network either",
    "ipc namespace": "System V and POSIX queues are shared with the machine, so a job cannot use them",
    "uts namespace": "a job can read the host's name",
    "cgroup namespace": "a job sees the machine's control groups, but can open none of their files",
}


def protections(backend: str, abi: int | None = None) -> Protections:
    """Return the protections, and whether this machine enforces each of them. Blocking.

    Args:
        abi: The version of Landlock; None for the kernel's version.
    """
    version = landlock.abi() if abi is None else abi
    broken = _try_out() if version >= rules.MINIMUM_ABI else {}
    first = (_landlock(version), seccomp_filter(), _user(), _interpreter())
    items = [_as_tried(item, broken) for item in (*first, *_simple())]
    return Protections(backend, (*items, *_absent()))


def _try_out() -> dict[str, str]:
    """Return the name and the problem of the first layer that does not work; empty if all layers work."""
    uids = machine.own_uids()
    uid = uids.start if os.geteuid() == 0 and uids else -1
    command = [sys.executable, "-I", "-S", "-c", _TRY, _SOURCE, str(uid)]
    ran = subprocess.run(command, check=False, timeout=_TRY_WAIT_S, capture_output=True, text=True)
    if ran.returncode:
        return {"landlock": f"the test program exited with {ran.returncode}: {ran.stderr.strip()[-200:]}"}
    layer, _, problem = ran.stdout.strip().partition("\t")
    return {layer: problem} if layer else {}


def _as_tried(item: Protection, broken: dict[str, str]) -> Protection:
    if item.name not in broken or item.state is State.ABSENT:
        return item
    remedy = _AS_A_USER if os.geteuid() == 0 else "Use the namespace or the docker backend."
    return Protection(item.name, State.ABSENT, item.required, broken[item.name], remedy)


def _landlock(version: int) -> Protection:
    if version >= rules.MINIMUM_ABI:
        return Protection("landlock", State.ENFORCED, True, f"ABI {version}: files, TCP, signals, abstract sockets")
    why = f"ABI {version} cannot restrict a job's signals" if version else "this kernel has no Landlock"
    remedy = "Use Linux 6.12 or newer with landlock in its lsm= list, or the namespace or docker backend."
    return Protection("landlock", State.ABSENT, True, why, remedy)


def _user() -> Protection:
    name = "unprivileged user"
    if os.geteuid() != 0:
        own = "jobs run as you, but can open or change none of your files except those that jobs may use"
        return Protection(name, State.ENFORCED, True, own)
    if not machine.own_uids():
        return Protection(name, State.ABSENT, True, "this user namespace maps only root", _AS_A_USER)
    return Protection(name, State.ENFORCED, True, "each job has its own user id, or that of its workspace's owner")


def _interpreter() -> Protection:
    name = "readable interpreter"
    if machine.interpreter(for_others=os.geteuid() == 0) is not None:
        return Protection(name, State.ENFORCED, required=True)
    why = f"{sys.base_prefix} is closed to other users, and jobs started by root run as other users"
    return Protection(
        name, State.ABSENT, True, why, f"Install Python below /usr, or {_AS_A_USER[0].lower()}{_AS_A_USER[1:]}"
    )


def _simple() -> list[Protection]:
    nproc = "the kernel counts a job's processes if Knackbox runs as root; otherwise polling counts them"
    end = "one call kills all processes of a job (a Landlock domain with a signal scope, under a child subreaper)"
    return [
        Protection("no capabilities", State.ENFORCED, required=True),
        Protection("no_new_privs", State.ENFORCED, required=True),
        Protection("rlimits", State.ENFORCED, required=True, detail=nproc),
        Protection("no survivors", State.ENFORCED, required=True, detail=end),
    ]


def _absent() -> list[Protection]:
    use = "Use the namespace backend, which has this layer."
    disk = "files are on the host's disk; polling measures a job's folder, and no file may exceed the disk limit"
    return [
        *(Protection(name, State.ABSENT, False, why, use) for name, why in _WITHOUT.items()),
        Protection("disk of its own", State.ABSENT, False, disk, use),
        control_group(),
    ]

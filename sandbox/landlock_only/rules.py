"""Landlock rulesets of this level: files by allow-list, no TCP, signals and abstract sockets among its own.

There is no private root here, so what may be read is named place by place. Standard library only.
"""

import ctypes
import os
from collections.abc import Iterable

from sandbox.namespace import landlock, syscalls

MINIMUM_ABI = 6  # the first with scopes: without them a job could signal every process of its user
_CREATE_RULESET = 444
_EXECUTE, _READ_FILE, _READ_DIR = 1, 4, 8
READ = _EXECUTE | _READ_FILE | _READ_DIR
_TCP_BIND_AND_CONNECT = 3
_SCOPE_ABSTRACT_UNIX, _SCOPE_SIGNAL = 1, 2


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


def of_worker(version: int, readable: Iterable[str], writable: Iterable[str]) -> int:
    """Rules as a descriptor: only these places, and of places that are not there nothing. Raises OSError."""
    everything = landlock.write_access(version)
    rules = _create(fs=everything, net=_TCP_BIND_AND_CONNECT, scoped=_SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL)
    for path in readable:
        if os.path.exists(path):
            landlock.allow(rules, path, READ)
    for path in writable:
        landlock.allow(rules, path, everything)
    return rules


def of_family() -> int:
    """Rules that only keep signals among the processes bound by them."""
    return _create(scoped=_SCOPE_SIGNAL)


def _create(*, fs: int = 0, net: int = 0, scoped: int = 0) -> int:
    attr = _Ruleset(fs=fs, net=net, scoped=scoped)
    return syscalls.syscall(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(ctypes.sizeof(attr)), ctypes.c_uint(0))

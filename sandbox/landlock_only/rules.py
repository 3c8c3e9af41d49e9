"""Landlock rulesets of this level: files by allow-list, no TCP, signals and abstract sockets among its own.

There is no private root here, so what may be read is named place by place. Standard library only.
"""

import os
from collections.abc import Iterable

from sandbox.linux import landlock

MINIMUM_ABI = 6  # the first with scopes: without them a job could signal every process of its user


def of_worker(version: int, readable: Iterable[str], writable: Iterable[str]) -> int:
    """Rules as a descriptor: only these places, and of places that are not there nothing. Raises OSError."""
    everything = landlock.write_access(version)
    scoped = landlock.SCOPE_ABSTRACT_UNIX | landlock.SCOPE_SIGNAL
    rules = landlock.create(version, fs=everything, net=landlock.TCP_BIND_AND_CONNECT, scoped=scoped)
    for path in readable:
        if os.path.exists(path):
            landlock.allow(rules, path, landlock.READ)
    for path in writable:
        landlock.allow(rules, path, everything)
    return rules


def of_family() -> int:
    """Rules that only keep signals among the processes bound by them."""
    return landlock.create(MINIMUM_ABI, scoped=landlock.SCOPE_SIGNAL)

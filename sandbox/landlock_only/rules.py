"""The Landlock rulesets of the `landlock` backend.

They allow access to listed files only, forbid TCP, and keep signals and abstract sockets inside the box. The box has no
root folder of its own, so every readable path must be listed. Standard library only.
"""

import os
from collections.abc import Iterable

from sandbox.linux import landlock

MINIMUM_ABI = 6  # the first with scopes: without them a job could signal every process of its user


def of_worker(version: int, readable: Iterable[str], writable: Iterable[str]) -> int:
    """Return the descriptor of a ruleset that allows only these paths. Missing paths are skipped.

    Raises:
        OSError: The kernel refuses the ruleset.
    """
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
    """Return the descriptor of a ruleset whose only effect is to confine signals to the processes under it."""
    return landlock.create(MINIMUM_ABI, scoped=landlock.SCOPE_SIGNAL)

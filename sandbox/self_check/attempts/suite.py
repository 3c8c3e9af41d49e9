"""All attempts, and those that a backend on this machine is put through."""

import platform

from sandbox.self_check.attempts import (
    descriptors,
    devices,
    environment,
    exhaustion,
    files,
    forging,
    identity,
    kernel,
    memory,
    neighbours,
    persistence,
    proc,
    shells,
    signals,
    sockets,
    workspace,
)
from sandbox.self_check.attempts.attempt import Attempt

# The families that only look come first, those that use things up last.
ALL: tuple[Attempt, ...] = (
    *environment.ATTEMPTS,
    *proc.ATTEMPTS,
    *files.ATTEMPTS,
    *sockets.ATTEMPTS,
    *descriptors.ATTEMPTS,
    *shells.ATTEMPTS,
    *identity.ATTEMPTS,
    *devices.ATTEMPTS,
    *kernel.ATTEMPTS,
    *workspace.ATTEMPTS,
    *forging.ATTEMPTS,
    *persistence.ATTEMPTS,
    *neighbours.ATTEMPTS,
    *signals.ATTEMPTS,
    *memory.ATTEMPTS,
    *exhaustion.ATTEMPTS,
)


def attempts_on(backend: str) -> tuple[Attempt, ...]:
    """Attempts that can be made on a backend of this name, on this machine."""
    machine = platform.machine()
    return tuple(attempt for attempt in ALL if attempt.applies(backend, machine))

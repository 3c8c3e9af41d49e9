"""All attempts, and the selection of those that apply to a backend on this machine."""

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

# Families that only read come first, those that exhaust resources last.
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
    """Return the attempts for the backend with this name on this machine."""
    machine = platform.machine()
    return tuple(attempt for attempt in ALL if attempt.applies(backend, machine))

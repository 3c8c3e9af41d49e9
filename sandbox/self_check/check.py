"""What a check of `sandbox.self_check` consists of."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sandbox.contract import Job, Language, Outcome, Sandbox, SandboxError


class CheckFailed(Exception):
    """The sandbox violates the contract; the message says what was observed."""


class Missing(Exception):
    """The check cannot be made on this machine, through no fault of the sandbox; the message says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """A named check. `run` raises CheckFailed, Missing, or what the sandbox raised."""

    group: str
    name: str
    run: Callable[[Sandbox], Awaitable[None]]


def require(holds: bool, seen: object) -> None:
    """Check a condition. Raises CheckFailed with what was observed instead."""
    if not holds:
        raise CheckFailed(f"seen: {seen}"[:600])


async def run(sandbox: Sandbox, job: Job) -> Outcome:
    """Run a job. Raises Missing when the machine lacks its language, unless that is Python."""
    try:
        return await sandbox.run(job)
    except SandboxError as problem:
        if job.language is not Language.PYTHON and "is not on this machine" in problem.message:
            raise Missing(problem.message) from None
        raise

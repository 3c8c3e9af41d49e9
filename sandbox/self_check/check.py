"""What one check of `sandbox.self_check` is made of."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sandbox.contract import Job, Language, Outcome, Sandbox, SandboxError


class Broken(Exception):
    """The sandbox does not do what the contract says; the message says what was seen."""


class Missing(Exception):
    """The check cannot be made here, through no fault of the sandbox; the message says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """run: raises Broken, Missing, or what the sandbox raised."""

    group: str
    name: str
    run: Callable[[Sandbox], Awaitable[None]]


def require(holds: bool, seen: object) -> None:
    """Raises Broken with what was seen instead."""
    if not holds:
        raise Broken(f"seen: {seen}"[:600])


async def run(sandbox: Sandbox, job: Job) -> Outcome:
    """Run a job; a language other than Python that is not there is Missing, not a failure."""
    try:
        return await sandbox.run(job)
    except SandboxError as problem:
        if job.language is not Language.PYTHON and "is not on this machine" in problem.message:
            raise Missing(problem.message) from None
        raise

"""`Check`: the type of the checks in `sandbox.self_check`, and the helpers they use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sandbox.contract import Job, Language, Outcome, Sandbox, SandboxError


class CheckFailed(Exception):
    """The sandbox violates the contract; the message says what was observed."""


class Missing(Exception):
    """The check cannot be made on this machine, and the sandbox is not the reason. The message states the reason."""


@dataclass(frozen=True, slots=True)
class Check:
    """A named check. `run` raises CheckFailed, Missing, or any exception that the sandbox raised."""

    group: str
    name: str
    run: Callable[[Sandbox], Awaitable[None]]


def require(holds: bool, seen: object) -> None:
    """Check a condition.

    Raises:
        CheckFailed: The condition is false. The message says what was observed instead.
    """
    if not holds:
        raise CheckFailed(f"observed: {seen}"[:600])


async def run(sandbox: Sandbox, job: Job) -> Outcome:
    """Run a job.

    Raises:
        Missing: The job's language is Node or Bash, and is not installed on this machine.
    """
    try:
        return await sandbox.run(job)
    except SandboxError as problem:
        if job.language is not Language.PYTHON and "is not installed on this machine" in problem.message:
            raise Missing(problem.message) from None
        raise

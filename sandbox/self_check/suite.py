"""Tests the contract of a sandbox: a suite of checks that every backend passes, and that any user can run.

The suite runs small named checks of what `sandbox.contract` promises, then every attempt of
`sandbox.self_check.attempts` except those that exhaust a resource, because separate checks cover the limits. If the box
does not hide the host, the suite runs nothing that could damage the host. The module imports only the standard library
and this package.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from sandbox.contract import Sandbox, SandboxError
from sandbox.self_check import ends, leftovers, programs, values
from sandbox.self_check.attempts.attempt import Attempt, AttemptFamily
from sandbox.self_check.attempts.stage import Stage
from sandbox.self_check.attempts.suite import attempts_on
from sandbox.self_check.attempts.trial import Trial, put
from sandbox.self_check.check import Check, CheckFailed, Missing

_CHECK_WAIT_S = 60.0
_FAMILY_WAIT_S = 300.0
ESCAPES = "escapes"
# Groups of checks that, without any isolation, would exhaust the machine or leave processes on it.
DAMAGING = frozenset({"limits", "ends", "leftovers"})
# Attempts to exhaust resources are omitted, because separate checks cover the limits.
_FAMILIES = tuple(family for family in AttemptFamily if family is not AttemptFamily.EXHAUSTION)
_NOTHING_HOLDS = "skipped, because without isolation the check could damage this machine"
_SHOWN = 5  # a finding names at most this many successful attempts

CHECKS: tuple[Check, ...] = (*values.CHECKS, *programs.CHECKS, *ends.CHECKS, *leftovers.CHECKS)


class Verdict(StrEnum):
    """The result of a check."""

    HOLDS = "holds"
    FAILS = "fails"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and its result. `detail` describes a failure, or the reason why a check was skipped."""

    group: str
    name: str
    verdict: Verdict
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.verdict is Verdict.FAILS


OnResult = Callable[[Finding], None]


async def self_check(sandbox: Sandbox, *, on_result: OnResult | None = None, escapes: bool = True) -> list[Finding]:
    """Run every check on the sandbox, one after another. A failure does not stop the remaining checks.

    Args:
        sandbox: The sandbox.
        on_result: Called with each finding.
        escapes: Whether to make the attempts of `sandbox.self_check.attempts`.
    """
    findings: list[Finding] = []

    def report(finding: Finding) -> None:
        findings.append(finding)
        if on_result is not None:
            on_result(finding)

    with Stage(sandbox.name) as stage:
        attempts = attempts_on(sandbox.name)
        isolation = await _escapes(sandbox, stage, "isolation", [each for each in attempts if each.stop_on_success])
        report(isolation)
        for check in CHECKS:
            if isolation.failed and check.group in DAMAGING:
                report(Finding(check.group, check.name, Verdict.SKIPPED, _NOTHING_HOLDS))
            else:
                report(await _guarded(check.group, check.name, _CHECK_WAIT_S, check.run(sandbox)))
        for family in _FAMILIES if escapes else ():
            of_family = [each for each in attempts if each.family is family and not each.stop_on_success]
            if isolation.failed:
                report(Finding(ESCAPES, family, Verdict.SKIPPED, _NOTHING_HOLDS))
            else:
                report(await _escapes(sandbox, stage, family, of_family))
    return findings


async def _guarded(group: str, name: str, seconds: float, work: Awaitable[None]) -> Finding:
    try:
        async with asyncio.timeout(seconds):
            await work
    except Missing as reason:
        return Finding(group, name, Verdict.SKIPPED, str(reason))
    except CheckFailed as problem:
        return Finding(group, name, Verdict.FAILS, str(problem))
    except SandboxError as problem:
        return Finding(group, name, Verdict.FAILS, f"the box failed: {problem}")
    except TimeoutError:
        return Finding(group, name, Verdict.FAILS, f"still running after {seconds:g} s")
    except Exception as problem:  # noqa: BLE001  (whatever a third-party backend raises is the finding)
        return Finding(group, name, Verdict.FAILS, f"{type(problem).__name__}: {problem}")
    return Finding(group, name, Verdict.HOLDS)


async def _escapes(sandbox: Sandbox, stage: Stage, name: str, attempts: Sequence[Attempt]) -> Finding:
    trials: list[Trial] = []

    async def make() -> None:
        for attempt in attempts:
            with suppress(Missing):
                trials.append(await _try(sandbox, attempt, stage))
        worked = [trial for trial in trials if not trial.held]
        if worked:
            shown = "; ".join(f"{trial.attempt.attempt}: {trial.wrong[0]}" for trial in worked[:_SHOWN])
            more = f"; and {len(worked) - _SHOWN} more" if len(worked) > _SHOWN else ""
            raise CheckFailed(f"{len(worked)} of {len(trials)} attempts did not fail as they should: {shown}{more}")
        if not trials:
            raise Missing("none of the attempts applies to this backend")

    return await _guarded(ESCAPES, f"{name} ({len(attempts)} attempts)", _FAMILY_WAIT_S, make())


async def _try(sandbox: Sandbox, attempt: Attempt, stage: Stage) -> Trial:
    try:
        return await put(sandbox, attempt, stage)
    except SandboxError as problem:
        if "is not installed on this machine" in problem.message:
            raise Missing(problem.message) from None
        raise

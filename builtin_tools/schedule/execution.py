"""Runs one claimed instant: a call of a tool or skill, or a message to the loop, with the rights of the job's creator.

The rights are checked again: the call goes through the engine's pipeline, in the turn of the creator, with the limits
that apply now.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from builtin_tools.schedule.claims import ClaimedInstant, InstantOutcome
from builtin_tools.schedule.triggers.wall_time import SECOND
from engine.contract.background import BackgroundHost
from engine.contract.failure import ConfigError, Failure, FailureClass, ToolFailure
from engine.contract.result import ToolResult
from engine.contract.scheduler import InstantState
from engine.contract.spec import Origin, ToolSpec

FIRST_WAIT_S = 30.0  # before the second attempt; doubled before each further one
LONGEST_WAIT_S = 3600.0
_INTERRUPTED = "may_have_happened"  # reason of a keyed call whose first attempt was interrupted
_REPLAYED = "the result of an earlier call with the same idempotency key; nothing was run"

Start = Callable[[bool], Awaitable[bool]]


async def execute(
    host: BackgroundHost, claimed: ClaimedInstant, start: Start, now: Callable[[], int]
) -> InstantOutcome | None:
    """Run an instant and return how the attempt ended; None if it does not belong to the worker any more.

    Args:
        host: Makes the call.
        claimed: The instant.
        start: Records that the attempt begins, and whether it may be repeated if the worker ends. Returns False if the
            instant does not belong to the worker any more.
        now: Returns the current time as an instant.
    """
    action = claimed.job.request.action
    if action.kind == "message":
        return await _send(host, claimed, start, now)
    try:
        spec = await host.describe_tool(action.target, claimed.job.turn)
        check_kind(claimed, spec)
    except ToolFailure as error:
        return InstantOutcome(InstantState.FAILED, reason=f"{error.failure_class}: {error}")
    if not await start(spec.replay_safe):
        return None
    try:
        called = host.call(action.target, action.arguments, claimed.job.turn, call_id=claimed.call_id)
        result = await called
    except asyncio.CancelledError:
        return _stopped(spec.replay_safe, now())
    return outcome_of(result, claimed, now())


def check_kind(claimed: ClaimedInstant, spec: ToolSpec) -> None:
    """Check that what a job calls as a skill is a skill.

    Raises:
        ToolFailure: It is another tool (FATAL).
    """
    if claimed.job.request.action.kind == "skill" and spec.origin is Origin.STATIC:
        raise ToolFailure(f"{spec.name} is not a skill any more.", failure_class=FailureClass.FATAL)


def outcome_of(result: ToolResult, claimed: ClaimedInstant, now: int) -> InstantOutcome:
    """Return how an attempt ended that got a result."""
    if result.success or result.failure is None:
        state = InstantState.DONE if result.success else InstantState.FAILED
        return InstantOutcome(state, result.text, _REPLAYED if result.audit.end == "replayed" else "")
    failure = result.failure
    reason = f"{failure.failure_class}: {failure.reason}"
    if failure.reason == _INTERRUPTED:
        return InstantOutcome(InstantState.UNKNOWN, result.text, reason)
    if failure.failure_class is FailureClass.RETRYABLE and claimed.attempts < claimed.job.request.retries:
        return InstantOutcome(InstantState.DUE, result.text, reason, retry_at=now + _wait(claimed, failure))
    return InstantOutcome(InstantState.FAILED, result.text, reason)


async def _send(
    host: BackgroundHost, claimed: ClaimedInstant, start: Start, now: Callable[[], int]
) -> InstantOutcome | None:
    """Let the loop work on the message of a job. It is never repeated after it has begun to call tools."""
    request = claimed.job.request
    if not await start(False):
        return None
    limits = request.limits
    left = limits.tokens - claimed.job.tokens if limits.tokens else 0
    most_tokens = min((each for each in (left, limits.run_tokens) if each > 0), default=0)
    try:
        report = await host.send(request.action.message, claimed.job.turn, most_tokens=most_tokens, most_s=limits.run_s)
    except asyncio.CancelledError:
        return _stopped(False, now())
    except ConfigError as error:
        return InstantOutcome(InstantState.FAILED, reason=f"{FailureClass.FATAL}: {error}")
    if report.answered:
        return InstantOutcome(InstantState.DONE, report.answer, tokens=report.tokens)
    if report.finish == "model_error" and not report.calls and claimed.attempts < request.retries:
        failure = Failure(FailureClass.RETRYABLE, report.finish)
        at = now() + _wait(claimed, failure)
        return InstantOutcome(InstantState.DUE, report.answer, report.finish, report.tokens, at)
    return InstantOutcome(InstantState.FAILED, report.answer, report.finish, report.tokens)


def _stopped(repeatable: bool, now: int) -> InstantOutcome:
    """Return how an attempt ended that was cancelled, because its worker is stopped."""
    if repeatable:
        return InstantOutcome(InstantState.DUE, reason="its worker was stopped, so it is run again", retry_at=now)
    reason = "its worker was stopped while it ran; it may have had an effect"
    return InstantOutcome(InstantState.UNKNOWN, reason=reason)


def _wait(claimed: ClaimedInstant, failure: Failure) -> int:
    """Return the milliseconds until the next attempt. Jitter removes up to half of the back-off."""
    back_off = min(FIRST_WAIT_S * 2.0**claimed.attempts, LONGEST_WAIT_S)
    asked = failure.retry_after or 0.0
    return round((asked + back_off * random.uniform(0.5, 1.0)) * SECOND)  # noqa: S311 -- no secret

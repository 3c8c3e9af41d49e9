"""Decides whether, when and how often a call is retried. The package tenacity makes the retries."""

import asyncio
import importlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from engine.contract.failure import Failure, FailureClass
from engine.recovery.budget import RetryBudget

T = TypeVar("T")

MOST_ATTEMPTS = 3
# The maximum waits before the second and third attempt are 0.25 and 0.5 s; jitter removes up to half of each, so that
# callers that failed together do not retry together ("Exponential Backoff And Jitter", AWS Architecture Blog).
FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 8.0


def without_unsafe_retry(failure: Failure) -> Failure:
    """Change RETRYABLE to DIAGNOSTIC if a retry is not safe, because the call may have taken effect."""
    if failure.failure_class is FailureClass.RETRYABLE and not failure.replay_safe:
        return replace(failure, failure_class=FailureClass.DIAGNOSTIC)
    return failure


@dataclass(frozen=True, slots=True)
class Retrier:
    """Retries transient failures while the budget lasts. Sleep and randomness are injected."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: random.Random = field(default_factory=random.Random)
    most_attempts: int = MOST_ATTEMPTS
    budget: RetryBudget = field(default_factory=RetryBudget)

    async def again(
        self,
        first: Exception,
        attempt: Callable[[], Awaitable[T]],
        failure_of: Callable[[BaseException], Failure],
        remaining_s: Callable[[], float],
    ) -> T:
        """Retry after the first attempt raised `first`, and return the value of a later attempt.

        If all attempts fail, the last error is raised. If no retry is allowed, that is `first`.

        Args:
            first: The error of the first attempt.
            attempt: Function that makes another attempt.
            failure_of: Function that classifies an error. Only failures that are RETRYABLE and `replay_safe` are
                retried.
            remaining_s: Function that returns the seconds left until the call's deadline. If the next wait would be
                longer, no retry is made.
        """
        # Importing tenacity takes 60 ms, because it imports tornado. That is too long for the event loop, so a thread
        # does it, and only when the first retry is due.
        await asyncio.to_thread(importlib.import_module, "tenacity")
        import tenacity  # noqa: PLC0415 - loaded above

        pending: list[Exception] = [first]

        async def run() -> T:
            if pending:
                raise pending.pop()
            return await attempt()

        def repeatable(error: BaseException) -> bool:
            failure = failure_of(error)
            return failure.failure_class is FailureClass.RETRYABLE and failure.replay_safe

        def wait(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome is not None else None
            asked = failure_of(error).retry_after if error is not None else None
            return self._wait(state.attempt_number, asked)

        def stop(state: tenacity.RetryCallState) -> bool:
            if state.attempt_number >= self.most_attempts or state.upcoming_sleep >= remaining_s():
                return True
            error = state.outcome.exception() if state.outcome is not None else None
            if error is None:
                return False
            most_repeats = getattr(error, "most_repeats", None)
            if most_repeats is not None and state.attempt_number > most_repeats:
                return True
            return not self.budget.take(failure_of(error))

        retrying = tenacity.AsyncRetrying(
            sleep=self.sleep,
            stop=stop,
            wait=wait,
            retry=tenacity.retry_if_exception(repeatable),
            reraise=True,
        )
        return await retrying(run)

    def _wait(self, attempts_made: int, asked_s: float | None) -> float:
        """Return the seconds to wait before the next attempt. Jitter is added to a wait that the failure requested."""
        back_off: float = min(FIRST_WAIT_S * 2 ** (attempts_made - 1), LONGEST_WAIT_S)
        if asked_s is not None:
            return asked_s + back_off * self.rng.uniform(0.0, 0.5)
        return back_off * self.rng.uniform(0.5, 1.0)

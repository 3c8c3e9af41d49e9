"""`RetryBudget`: limits the number of retries of an engine, so that a service in trouble is not flooded with them."""

from dataclasses import dataclass, field

from engine.contract.failure import Failure
from engine.contract.guard import Guard, GuardRequest

# The values of the AWS SDKs' standard retry mode: 500 tokens, 5 per retry, 10 per retry after a timeout, 1 back for
# each success ("Retry behavior", AWS SDKs and Tools Reference Guide). This allows a hundred consecutive retries, then
# one for every five successes.
CAPACITY = 500
COST = 5
TIMEOUT_COST = 10
REFUND = 1


@dataclass(slots=True)
class RetryBudget(Guard):
    """A token bucket, one per engine. Retries take tokens, successful calls add tokens. The guard admits every call."""

    capacity: int = CAPACITY
    tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.capacity

    def take(self, failure: Failure) -> bool:
        """Take the tokens for one retry after this failure. Return False, and take none, if there are too few."""
        cost = TIMEOUT_COST if failure.reason == "timeout" else COST
        if cost > self.tokens:
            return False
        self.tokens -= cost
        return True

    def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:  # noqa: ARG002 -- required by the base class
        if failure is None and self.tokens < self.capacity:
            self.tokens = min(self.capacity, self.tokens + REFUND)

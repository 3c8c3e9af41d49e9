"""`RetryBudget`: how many repeats an engine may afford, so that not everybody asks a dead service three times."""

from dataclasses import dataclass, field

from engine.contract.failure import Failure
from engine.contract.guard import Guard, GuardRequest

# The figures of the AWS SDKs' standard retry mode: 500 tokens, 5 for a repeat, 10 for one after a timeout, 1 back for
# a call that succeeds ("Retry behavior", AWS SDKs and Tools Reference Guide). A hundred repeats in a row, then one for
# every five successes.
CAPACITY = 500
COST = 5
TIMEOUT_COST = 10
REFUND = 1


@dataclass(slots=True)
class RetryBudget(Guard):
    """A token bucket, one for an engine. A guard that admits all: repeats are paid for, and successes fill it again."""

    capacity: int = CAPACITY
    tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.capacity

    def take(self, failure: Failure) -> bool:
        """Pay for one repeat after this failure; False when there is not enough, and then nothing is taken."""
        cost = TIMEOUT_COST if failure.reason == "timeout" else COST
        if cost > self.tokens:
            return False
        self.tokens -= cost
        return True

    def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:  # noqa: ARG002 -- a guard's
        if failure is None and self.tokens < self.capacity:
            self.tokens = min(self.capacity, self.tokens + REFUND)

"""`Breakers`: circuit breakers. A tool whose service is down is blocked for a while, and then tried with one call."""

from dataclasses import dataclass

from engine.contract.context import Clock
from engine.contract.failure import Failure, FailureClass, refusal
from engine.contract.guard import Guard, GuardRequest

# Consecutive failures. A call makes up to three attempts, so this is about fifteen failed attempts.
OPENS_AFTER = 5
RESTS_S = 30.0

# Overload and rate-limit responses are not included: they show that the service is up.
_DOWN = frozenset({"unreachable", "server_error", "timeout", "name_resolution", "sandbox_failed"})


@dataclass(slots=True)
class _Circuit:
    """The circuit of one tool.

    Attributes:
        failures: The number of consecutive failures.
        until: The time at which an open circuit half-opens; None while the circuit is closed.
        probe: The id of the trial call; "" if there is none.
    """

    failures: int = 0
    until: float | None = None
    probe: str = ""


class Breakers(Guard):
    """A guard with one circuit per tool: closed (calls pass), open (calls are refused), half-open (one trial call).

    The pattern is Michael Nygard's ("Release It!", 2007).
    """

    def __init__(self, clock: Clock, *, opens_after: int = OPENS_AFTER, rests_s: float = RESTS_S) -> None:
        self._clock = clock
        self._opens_after = opens_after
        self._rests_s = rests_s
        self._circuits: dict[str, _Circuit] = {}  # by name, for tools that have failed since their last success

    def admit(self, request: GuardRequest) -> None:
        """Refuse the call while the circuit is open.

        Raises:
            ToolFailure: The circuit is open (RETRYABLE, with the time until the circuit half-opens).
        """
        circuit = self._circuits.get(request.spec.name)
        if circuit is None or circuit.until is None:
            return
        left = circuit.until - self._clock.monotonic()
        if left <= 0 and not circuit.probe:
            circuit.probe = request.call_id
            return
        soon = ", and another call is trying it now" if left <= 0 else ""
        raise refusal(
            f"{request.spec.name} is blocked: it failed {circuit.failures} times in a row{soon}. Nothing was run.",
            "resting",
            FailureClass.RETRYABLE,
            retry_after=max(left, 0.0),
        )

    def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:
        name = request.spec.name
        circuit = self._circuits.get(name)
        if failure is None:
            if circuit is not None:
                del self._circuits[name]
            return
        down = ran and failure.failure_class is FailureClass.RETRYABLE and failure.reason in _DOWN
        probed = circuit is not None and circuit.probe == request.call_id
        if circuit is None:
            if not down:
                return
            circuit = self._circuits[name] = _Circuit()
        if probed:
            circuit.probe = ""  # the trial call was cancelled or failed for another reason, so the next call decides
        if not down:
            return
        circuit.failures += 1
        if probed or circuit.failures >= self._opens_after:
            circuit.until = self._clock.monotonic() + self._rests_s

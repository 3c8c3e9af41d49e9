"""`Repeats`: refuses a call that has already failed twice in the same way, so that the model changes its approach."""

from collections import OrderedDict

from engine.contract.canonical import digest
from engine.contract.context import Clock
from engine.contract.failure import Failure, FailureClass, refusal
from engine.contract.guard import Guard, GuardRequest

MOST = 2  # failures of one call, after which it is refused
FORGOTTEN_AFTER_S = 600.0
_REMEMBERED = 64  # failing calls of one agent
_AGENTS = 1024

_Agent = tuple[str, str]

# Failures caused by the engine, its machine or its configuration. The same call may work once that is fixed.
_OUR_FAULTS = frozenset(
    {
        "busy",
        "cancelled",
        "closed",
        "configuration",
        "engine_fault",
        "killed",
        "missing_service",
        "no_space",
        "sandbox_failed",
        "sandbox_unavailable",
    }
)


class Repeats(Guard):
    """A guard. Calls are the same if agent, tool and arguments are, regardless of the order of the arguments.

    Transient failures (RETRYABLE), errors of the engine and its machine, and cancelled calls do not count. A success of
    the
    same call, or of any call of the agent that may have changed something, resets the count.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: OrderedDict[_Agent, OrderedDict[str, tuple[int, float]]] = OrderedDict()

    def admit(self, request: GuardRequest) -> None:
        """Refuse the third identical call.

        Raises:
            ToolFailure: The call has failed too often (DIAGNOSTIC).
        """
        failed = self._failed.get(_agent(request))
        if not failed:
            return
        times, last = failed.get(_identity(request), (0, 0.0))
        if times < MOST or self._clock.monotonic() - last > FORGOTTEN_AFTER_S:
            return
        raise refusal(
            f"{request.spec.name} was called with exactly these arguments {times} times and failed each time; it was "
            "not run again. Change the arguments or the approach, or call `replan`.",
            "repeated",
        )

    def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:
        agent = _agent(request)
        failed = self._failed.get(agent)
        if failure is None:
            if failed and not request.spec.annotations.read_only:
                del self._failed[agent]
            elif failed:
                failed.pop(_identity(request), None)
            return
        if not ran or failure.failure_class is FailureClass.RETRYABLE or failure.reason in _OUR_FAULTS:
            return
        if failed is None:
            failed = self._failed[agent] = OrderedDict()
        self._failed.move_to_end(agent)
        identity = _identity(request)
        now = self._clock.monotonic()
        times, last = failed.pop(identity, (0, now))
        failed[identity] = (times + 1 if now - last <= FORGOTTEN_AFTER_S else 1, now)
        if len(failed) > _REMEMBERED:
            failed.popitem(last=False)
        if len(self._failed) > _AGENTS:
            self._failed.popitem(last=False)


def _agent(request: GuardRequest) -> _Agent:
    return request.turn.user, request.turn.agent


def _identity(request: GuardRequest) -> str:
    return digest([request.spec.name, request.spec.version, request.call.arguments])

"""`Repeats`: refuses a call that has already failed twice in the same way, so that the model changes its approach."""

from cachetools import LRUCache, TTLCache

from engine.contract.canonical import digest
from engine.contract.context import Clock
from engine.contract.failure import Failure, FailureClass, refusal
from engine.contract.guard import Guard, GuardRequest

MOST = 2  # a call that has failed this often is refused
FORGOTTEN_AFTER_S = 600.0
_REMEMBERED = 64  # the number of failed calls to remember for each agent
_AGENTS = 1024

# Failures caused by the engine, its machine or its configuration. The same call may succeed once the cause is removed.
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
    """A guard that refuses calls that keep failing in the same way.

    Calls are the same if they have the same agent, tool and arguments, in any order. Transient failures (RETRYABLE),
    errors of the engine and its machine, and cancelled calls do not count. A call's count is reset when the call
    succeeds. All counts of an agent are reset when a call of a tool that is not read-only succeeds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Maps each `Turn.agent_key` to the number of failures of each call. Entries expire after `FORGOTTEN_AFTER_S`.
        self._failed: LRUCache[str, TTLCache[str, int]] = LRUCache(_AGENTS)

    def admit(self, request: GuardRequest) -> None:
        """Refuse a call that has already failed twice.

        Raises:
            ToolFailure: The call has failed too often (DIAGNOSTIC).
        """
        failed = self._failed.get(request.turn.agent_key)
        if not failed:
            return
        times = failed.get(_identity(request), 0)
        if times < MOST:
            return
        raise refusal(
            f"{request.spec.name} was called with exactly these arguments {times} times and failed each time; it was "
            "not run again. Change the arguments or the approach, or call `replan`.",
            "repeated",
        )

    def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:
        agent = request.turn.agent_key
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
            failed = self._failed[agent] = TTLCache(_REMEMBERED, FORGOTTEN_AFTER_S, self._clock.monotonic)
        identity = _identity(request)
        failed[identity] = failed.get(identity, 0) + 1


def _identity(request: GuardRequest) -> str:
    return digest([request.spec.name, request.spec.version, request.call.arguments])

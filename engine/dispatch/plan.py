"""`CallPlan`: the guards that apply to the calls of one tool, determined once per tool."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.contract.guard import Guard
from engine.contract.spec import ToolSpec
from engine.dispatch.watched_calls import may_change_files

MOST_PLANS = 4096  # if more tools are called, the oldest plans are dropped, and made again when needed

_Ended = Callable[..., None]


@dataclass(frozen=True, slots=True)
class CallPlan:
    """The guards that apply to calls of one tool, in order. Guards that do nothing for the tool are omitted.

    Attributes:
        spec: The tool.
        access_guards: Decide who may call the tool. Asked before the arguments are validated.
        guards: Asked after the arguments are validated.
        listeners: Pairs of a number and a `Guard.ended` method. The method is called when the call ends if at least
            that number of guards had admitted the call.
        watched: Whether calls may change files of the workspace, so that their changes are recorded (CODE-9).
    """

    spec: ToolSpec
    access_guards: tuple[Guard, ...]
    guards: tuple[Guard, ...]
    listeners: tuple[tuple[int, _Ended], ...]
    watched: bool = False


class CallPlans:
    """The plans of the tools that have been called, by the id() of their specs.

    Attributes:
        known: The plans, which the pipeline reads directly. Each plan holds its spec, so that the id() cannot be
            reused. This is a plain dict, because every call reads it. When it is full, which is rare, the oldest
            plan is dropped.
    """

    def __init__(self, access_guards: Sequence[Guard], guards: Sequence[Guard]) -> None:
        self._access_guards = access_guards
        self._guards = guards
        self.known: dict[int, CallPlan] = {}

    def make(self, spec: ToolSpec) -> CallPlan:
        """Make and store the plan of a tool."""
        admitting: list[Guard] = []
        listeners: list[tuple[int, _Ended]] = []
        access = 0
        for number, guard in enumerate((*self._access_guards, *self._guards)):
            if not guard.concerns(spec):
                continue
            if type(guard).admit is not Guard.admit:
                admitting.append(guard)
                access += number < len(self._access_guards)
            if type(guard).ended is not Guard.ended:
                listeners.append((len(admitting), guard.ended))
        if len(self.known) >= MOST_PLANS:
            del self.known[next(iter(self.known))]
        plan = CallPlan(
            spec, tuple(admitting[:access]), tuple(admitting[access:]), tuple(listeners), may_change_files(spec)
        )
        self.known[id(spec)] = plan
        return plan

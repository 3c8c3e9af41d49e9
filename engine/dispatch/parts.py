"""`Parts`: the objects that a pipeline needs, and the protocols that they implement."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.contract.context import Clock
from engine.contract.guard import Guard
from engine.contract.result import ToolCall, ToolResult
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.bind import BindContext
from engine.dispatch.call_secrets import CallSecrets
from engine.dispatch.in_flight import CallIds
from engine.dispatch.keyed import KeyedCalls
from engine.dispatch.render import OutputCap
from engine.dispatch.watchdog import DEFAULT_STALL_S
from engine.dispatch.watched_calls import WatchedCalls
from engine.recovery.fallback import FallbackChains
from engine.recovery.retry import Retrier
from engine.registry.registry import Registry

Observer = Callable[[ToolCall, ToolResult, Turn], None]


class CallRecorder(Protocol):
    """Records every call. `engine.dispatch.audit.AuditTrail` implements it."""

    def observe(self, call: ToolCall, result: ToolResult, turn: Turn) -> None:
        """Queue a completed call for writing. The method is called in the event loop, so it must be fast."""
        ...

    async def record_now(self) -> None:
        """Write all observed calls. For a failed call this is awaited before the caller receives the result."""
        ...


class OfferedTools(Protocol):
    """Looks up the tools on a turn's list by name or alias (`engine.turn.look_up`)."""

    async def specs(self, turn: Turn, names: Collection[str]) -> Mapping[str, ToolSpec]:
        """Map each of these names that is a name or alias of a tool on the list to the tool's spec."""
        ...

    async def nearest(self, turn: Turn, name: str) -> list[str]:
        """Return the names of the tools on the list that are most similar to `name`, best first."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The objects that a pipeline needs. Only `registry`, `bind` and `clock` are required.

    Attributes:
        chains: Fallback chains, if any.
        recorder: Records the calls. If None, calls are not recorded.
        access_guards: Decide who may call a tool. They are asked in order, before the arguments are validated, and are
            notified of the end of each call that they admitted.
        guards: Asked in order, after the arguments are validated. They are notified like `access_guards`.
        offered: Looks up the tools that a turn offers. Only these are suggested after a failed call or an unknown name.
            If None, every tool that the turn's user and agent may call can be suggested.
        keyed: Ensures that a call with an idempotency key happens only once. If None, such a call runs like any other.
        watched: Records what calls change in the workspace, so that it can be undone. If None, nothing is recorded.
        observers: Called once with every call and its result, in the event loop, so they must be fast. Their exceptions
            are logged and otherwise ignored. They also receive the results of calls that were cancelled by their
            caller.
        secrets: Keeps the values of secrets out of calls and results; None if no secret is configured.
    """

    registry: Registry
    bind: BindContext
    clock: Clock
    chains: FallbackChains | None = None
    recorder: CallRecorder | None = None
    access_guards: Sequence[Guard] = ()
    guards: Sequence[Guard] = ()
    offered: OfferedTools | None = None
    keyed: KeyedCalls | None = None
    watched: WatchedCalls | None = None
    observers: Sequence[Observer] = ()
    secrets: CallSecrets | None = None
    retrier: Retrier = field(default_factory=Retrier)
    cap: OutputCap = field(default_factory=OutputCap)
    new_id: Callable[[], str] = field(default_factory=CallIds)
    stall_s: float = DEFAULT_STALL_S
